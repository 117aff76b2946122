"""`hhd workspace`: captured, shown, compared and applied from the command line, with exit statuses that keep apart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.workspace.by_hand import everything, git, git_looks, looks, repository
from tests.workspace.table import made

from hhd.cli import run
from hhd.node import store as door
from hhd.node import workspaces
from hhd_protocol.ids import ObjectName


def hhd(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, object]]:
    """The exit status and the JSON object of one command."""
    status = run(["workspace", *words, "--json"])
    return status, json.loads(capsys.readouterr().out)


def test_a_folder_is_captured_and_appears_elsewhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = made(tmp_path / "source", "staged_and_unstaged")
    before = everything(source)
    status, kept = hhd(capsys, "capture", str(source))
    assert status == 0 and kept["branch"] == "main" and kept["index"] == 1
    status, done = hhd(capsys, "apply", str(kept["capture"])[:12], str(tmp_path / "target"))
    assert (status, done["in_place"], done["instead"]) == (0, False, "")
    assert looks(tmp_path / "target") == looks(source)
    assert git_looks(tmp_path / "target") == git_looks(source)
    assert everything(source) == before


def test_diff_says_what_changed_since(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = repository(tmp_path / "source")
    hhd(capsys, "capture", str(source))
    assert hhd(capsys, "diff", str(source))[1]["same"] is True
    (source / "a.txt").write_text("two\n")
    (source / "gone.txt").unlink()
    git(source, "add", "gone.txt")
    (source / "dir/new").write_text("new\n")
    _, found = hhd(capsys, "diff", str(source))
    assert found["same"] is False
    assert found["changes"] == [
        ["folder", "changed", "a.txt"],
        ["folder", "added", "dir/new"],
        ["folder", "removed", "gone.txt"],
        ["index", "removed", "gone.txt"],
    ]
    git(source, "checkout", "-q", "-b", "side")
    assert hhd(capsys, "diff", str(source))[1]["branch"] == ["main", "side"]


def test_what_the_folder_last_had_is_written_over_and_anything_else_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = made(tmp_path / "source", "dirty"), tmp_path / "target"
    first = hhd(capsys, "capture", str(source))[1]["capture"]
    hhd(capsys, "apply", str(first), str(target))
    (source / "a.txt").write_text("more\n")
    second = hhd(capsys, "capture", str(source))[1]["capture"]
    done = hhd(capsys, "apply", str(second), str(target))[1]
    assert done["in_place"] is True and looks(target) == looks(source)
    (target / "a.txt").write_text("mine\n")
    before = everything(target)
    status, done = hhd(capsys, "apply", str(first), str(target))
    assert status == 0 and done["in_place"] is False and "not committed" in str(done["instead"])
    assert everything(target) == before
    elsewhere = Path(str(done["folder"]))
    assert elsewhere.parent == tmp_path / "hhd-workspaces" and (elsewhere / "a.txt").read_text() == "changed\n"
    again = hhd(capsys, "apply", str(second), str(elsewhere))[1]
    assert again["in_place"] is True and looks(elsewhere) == looks(source)


def test_old_captures_of_folders_outlive_gc_until_newer_ones_push_them_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = repository(tmp_path / "source")
    ids = []
    for number in range(10):
        (source / "a.txt").write_text(f"{number}\n")
        ids.append(str(hhd(capsys, "capture", str(source))[1]["capture"]))
    assert run(["gc"]) == 0 and run(["check", "--read-data"]) == 0
    capsys.readouterr()
    assert [hhd(capsys, "show", one)[0] for one in ids] == [3, 3] + [0] * 8


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["capture", "nowhere"], 3),
        (["show", "abcd1234"], 3),
        (["show", "."], 3),
        (["apply", "abcd1234"], 3),
        (["map", "nobody", "."], 3),
        (["show"], 2),
    ],
)
def test_what_is_not_there_is_refused_in_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: list[str], status: int
) -> None:
    monkeypatch.chdir(tmp_path)
    found, said = hhd(capsys, *words)
    assert found == status and said["exit"] == status and str(said["error"]).endswith(".")


def test_a_name_that_means_nothing_is_not_taken_for_a_session_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, said = hhd(capsys, "show", "abcd1234")
    assert "no captured folder and no session 'abcd1234'" in str(said["error"])


def test_a_crash_is_ended_at_the_next_start_and_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tests.workspace import faults

    source, target = made(tmp_path / "source", "dirty"), tmp_path / "target"
    first = str(hhd(capsys, "capture", str(source))[1]["capture"])
    hhd(capsys, "apply", first, str(target))
    (source / "a.txt").write_text("more\n")
    second = str(hhd(capsys, "capture", str(source))[1]["capture"])
    from hhd.workspace.switcher import Switcher

    def act() -> None:
        Switcher._sync = lambda self: faults.os.kill(faults.os.getpid(), 9)  # type: ignore[method-assign]
        run(["workspace", "apply", second, str(target)])

    assert faults.killed(act, -1)
    assert (target / ".git/index.lock").exists()
    assert run(["workspace", "show", first]) == 0
    assert "was carried to its end" in capsys.readouterr().err
    assert looks(target) == looks(source) and not (target / ".git/index.lock").exists()


def test_a_folder_with_a_rebase_in_progress_is_left_alone_and_another_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = made(tmp_path / "source", "dirty"), repository(tmp_path / "target")
    kept = str(hhd(capsys, "capture", str(source))[1]["capture"])
    (target / ".git/rebase-merge").mkdir()
    before = everything(target)
    status, done = hhd(capsys, "apply", kept, str(target))
    assert status == 0 and done["in_place"] is False and "rebase is in progress" in str(done["instead"])
    assert everything(target) == before and looks(Path(str(done["folder"]))) == looks(source)


def test_a_link_to_a_folder_means_the_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = made(tmp_path / "source", "dirty"), tmp_path / "target"
    hhd(capsys, "apply", str(hhd(capsys, "capture", str(source))[1]["capture"]), str(target))
    (source / "a.txt").write_text("more\n")
    second = str(hhd(capsys, "capture", str(source))[1]["capture"])
    (tmp_path / "link").symlink_to("target")
    done = hhd(capsys, "apply", second, str(tmp_path / "link"))[1]
    assert done["in_place"] is True and looks(target) == looks(source)


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = str(hhd(capsys, "capture", str(repository(tmp_path / "source")))[1]["capture"])
    (tmp_path / "file").write_text("x")
    status, said = hhd(capsys, "apply", kept, str(tmp_path / "file/inner/new"))
    assert status == 3 and "cannot be written" in str(said["error"])


def damage(capture: str) -> None:
    """Change one byte of a capture in the store."""
    with door.opened() as store:
        sealed = store.objects.raw(ObjectName(bytes.fromhex(capture)))
    assert sealed is not None
    file = door.store_folder() / "store.db"
    raw = bytearray(file.read_bytes())
    raw[raw.index(sealed[60:100]) + 5] ^= 1  # In its head, which says what it holds.
    file.write_bytes(raw)


def test_a_damaged_capture_of_one_folder_is_in_nobody_elses_way(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = repository(tmp_path / "one"), repository(tmp_path / "other")
    first = str(hhd(capsys, "capture", str(one))[1]["capture"])
    hhd(capsys, "capture", str(other))
    damage(first)
    with workspaces.opened() as verbs:
        assert [known.folder for known in verbs._known()] == [other]


def test_a_folder_whose_last_capture_is_damaged_is_captured_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = made(tmp_path / "source", "dirty")
    first = str(hhd(capsys, "capture", str(source))[1]["capture"])
    damage(first)
    assert hhd(capsys, "show", first[:12])[0] == 1
    status, kept = hhd(capsys, "capture", str(source))
    assert status == 0 and kept["capture"] != first
    assert hhd(capsys, "apply", str(kept["capture"])[:12], str(tmp_path / "target"))[0] == 0
    assert looks(tmp_path / "target") == looks(source)
