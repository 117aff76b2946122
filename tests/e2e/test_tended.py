"""A daemon that is looked after: its log, its measures, its configuration read anew, and its start after an upgrade."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
from pathlib import Path

import pytest
from tests.e2e.lab import needs_agent
from tests.e2e.told import HHD, Told

from hhd.node import purging


def events(*words: str) -> list[str]:
    return [json.loads(line)["event"] for line in Told("logs", "--json", "-n", "1000").out.splitlines()]


def measured() -> dict[str, float]:
    lines = [line for line in Told("status", "--metrics").out.splitlines() if not line.startswith("#")]
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


def configure(text: str) -> None:
    folder = Path(os.environ["HHD_CONFIG_HOME"])
    folder.mkdir(exist_ok=True)
    (folder / "config.toml").write_text(text)


def test_its_life_is_in_the_log_which_only_this_user_reads(data: Path) -> None:
    assert Told("logs").out == ""
    assert Told("up").status == 0
    assert Told("daemon").status == 3  # A second one.
    assert Told("down").status == 0
    assert events() == ["started", "refused", "stopping", "ended"]
    assert stat.S_IMODE(os.stat(data / "logs/daemon.jsonl").st_mode) == 0o600
    shown = Told("logs", "-n", "2").out.splitlines()
    assert len(shown) == 2 and "stopping" in shown[0] and "ended" in shown[1]


def test_following_the_log_shows_what_comes(data: Path) -> None:
    following = subprocess.Popen([*HHD, "logs", "-f", "--json"], stdout=subprocess.PIPE, text=True)
    try:
        assert Told("up").status == 0
        assert following.stdout is not None
        assert json.loads(following.stdout.readline())["event"] == "started"
        following.send_signal(signal.SIGINT)
        assert following.wait(240) == 0
    finally:
        following.kill()
        following.wait()
        assert following.stdout is not None
        following.stdout.close()


def test_what_is_measured_is_text_for_prometheus(data: Path) -> None:
    none = Told("status", "--metrics")
    assert none.status == 3 and "No daemon runs here" in none.err
    assert Told("up").status == 0
    assert Told("show", "nothing").status == 3
    found = measured()
    assert found['hhd_requests_total{verb="show",how="refused"}'] == 1
    assert found["process_resident_memory_bytes"] > 5_000_000 and found["hhd_disk_free_bytes"] > 0
    assert found["hhd_log_lines_lost"] == 0 and found["process_open_fds"] > 3
    text = Told("status", "--metrics").out
    names = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(names) == len(set(names)) and all(f"# HELP {name} " in text for name in names)


def test_a_verb_that_nobody_knows_is_no_label(data: Path) -> None:
    from hhd.app import sessions
    from hhd.base.errors import RefusedError

    assert Told("up").status == 0
    link = sessions.daemon_link()
    assert link is not None
    with link, pytest.raises(RefusedError):
        link.ask('the title"of a session', {})
    text = Told("status", "--metrics").out
    assert "the title" not in text and 'verb="unknown"' in text


def test_a_bad_configuration_keeps_the_old_one_and_says_so(data: Path) -> None:
    configure("[store]\nkeep_days = 7\n")
    process = Told("up", "--json").json["process"]
    configure("[store]\nkeep_days = 8\n")
    told = Told("restart", "--config").out
    assert "read anew" in told and "hhd restart" not in told
    configure("[store]\nkeep_days = 8\nbytes_max = 1000000000\n[sync]\nspare_battery = false\n")
    told = Told("restart", "--config").out
    assert "After hhd restart only: what is new of [store] bytes_max, [sync] spare_battery." in told
    configure("[store]\nkeep_day = 9\n")
    told = Told("restart", "--config")
    assert told.status == 3 and "keep_day" in told.err and "goes on with the configuration it had" in told.err
    assert "keep_day" in Told("status").out and measured()["hhd_config_refused"] == 1
    os.kill(process, signal.SIGHUP)
    configure("[store]\nkeep_days = 9\n")
    os.kill(process, signal.SIGHUP)
    while measured()["hhd_config_refused"]:
        os.kill(process, signal.SIGHUP)
    assert "keep_day" not in Told("status").out
    found = events()
    assert found.count("config_refused") >= 1 and found[1] == "config_reloaded"
    assert "keep_day" not in Path(data / "logs/daemon.jsonl").read_text()
    assert Told("status", "--json").json["process"] == process


def test_with_a_bad_configuration_none_starts_and_it_says_why(data: Path) -> None:
    configure("[store]\nkeep_day = 9\n")
    told = Told("up")
    assert told.status == 3 and "keep_day" in told.err and len(told.err.splitlines()) == 1
    configure("")
    assert Told("up").status == 0


def test_restart_starts_one_anew_or_the_first(data: Path) -> None:
    first = Told("restart", "--json").json
    assert not first["restarted"]
    again = Told("restart", "--json").json
    assert again["restarted"] and again["process"] != first["process"]
    assert Told("status", "--json").json["process"] == again["process"]
    assert Told("restart", "--config").status == 0


def test_a_store_of_an_older_format_is_migrated_before_it_listens_after_a_copy(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hhd.base import log
    from hhd.base.notify import ServiceManager
    from hhd.node import beginning, store
    from hhd.store import layout

    with store.opened():
        pass
    (data / "store/format").write_text((data / "store/format").read_text().replace("hhd-store 1", "hhd-store 0"))
    monkeypatch.setattr(beginning, "store", opened := Opened())
    log.to(data / "logs")
    try:
        beginning.prepare(ServiceManager())
        assert opened.count == 1 and "store_migrated" in events()
        (data / "store/format").write_text((data / "store/format").read_text().replace("hhd-store 0", "hhd-store 1"))
        beginning.prepare(ServiceManager())
        assert opened.count == 1 and layout.FORMAT == 1
    finally:
        log.to(None)
        from hhd.base import config

        config.let_go()


class Opened:
    """Counts how often the store is opened."""

    def __init__(self) -> None:
        self.count = 0

    def opened(self) -> Opened:
        self.count += 1
        return self

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


PHRASES = ("zebra-of-the-title", "zebra said the person", "zebra_folder", "zebra.py")


@needs_agent
def test_nothing_of_a_session_is_in_the_log(data: Path, tmp_path: Path) -> None:
    """With a positive control: the same phrases are found where they may be."""
    folder = tmp_path / PHRASES[2]
    folder.mkdir()
    (folder / PHRASES[3]).write_text("x")
    assert Told("up").status == 0
    ran = Told("run", PHRASES[1], "-C", str(folder), "--model", "scripted:demo", "--json", stdin=subprocess.DEVNULL)
    session = Told("ls", "--json").json["sessions"][0]["id"]
    assert Told("rename", session, PHRASES[0]).status == 0, ran.err
    for words in (["show", PHRASES[0]], ["log", PHRASES[0]], ["fork", PHRASES[0]], ["show", f"no {PHRASES[0]}"]):
        Told(*words)
    shown = Told("show", PHRASES[0]).out + Told("ls", "--json").out
    assert all(phrase in shown for phrase in PHRASES[:3]), shown
    made = {one.name for one in data.iterdir()}
    assert made <= set(purging.OWN["data"]) and {"identity", "store", "logs"} <= made  # So a purge leaves nothing.
    assert Told("restart").status == 0
    Told("show", PHRASES[0])
    raw = b"".join(one.read_bytes() for one in (data / "logs").iterdir()) + Told("status", "--metrics").out.encode()
    assert b"started" in raw and b"hhd_requests_total" in raw
    for phrase in (*PHRASES, str(folder), "zebra"):
        assert phrase.encode() not in raw
