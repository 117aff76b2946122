"""A session's folder is captured when it may have changed, and its checkpoints name the capture of their moment."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.lab import call, needs_agent, says, text
from tests.node.driven import Person
from tests.node.stored import Laptop
from tests.workspace.lab import git, repository
from tests.workspace.looks import long_ago, unseen

from hhd.base.errors import RefusedError
from hhd.node import findings, here, sessions
from hhd.node.captures import Captures
from hhd.node.run import Run
from hhd.node.stored_session import StoreKeeper
from hhd.node.workspaces import Workspaces
from hhd.store.captures import capture_ref
from hhd.store.check import Check
from hhd.store.retention import sweep
from hhd.workspace import appearance, capture
from hhd_protocol.ids import SessionId
from hhd_protocol.workspace import Capture

TOKEN = "ghp_Zq8vTn2LwR4kYb7Xc9Hd3Jm5PfGs6Ae1Uu0I"


@pytest.fixture
def laptop(tmp_path: Path) -> Iterator[Laptop]:
    made = Laptop(folder=tmp_path / "laptop", script=[])
    yield made
    made.store.close()


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def captures(laptop: Laptop, session: SessionId, clock: Callable[[], float]) -> tuple[Captures, list[str]]:
    said: list[str] = []
    return Captures(laptop.store, session, laptop.repo, last=None, say=said.append, now=clock), said


def read(laptop: Laptop, session: SessionId, workspace: bytes | None) -> tuple[Capture, dict[bytes, bytes]]:
    ref = capture_ref(workspace)
    assert ref is not None
    reader = laptop.store.capture_reader(laptop.store.session(session).family, ref)
    made = reader.capture()
    files = {
        one.path: b"".join(map(reader.piece, one.content.pieces)) for one in made.entries if one.content is not None
    }
    return made, files


def counted(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """A list that grows with each capture."""
    taken: list[Path] = []
    really = capture.capture

    def one(folder: Path, *more: Any, **named: Any) -> Capture:
        taken.append(folder)
        return really(folder, *more, **named)

    monkeypatch.setattr(capture, "capture", one)
    return taken


@needs_agent
def test_a_capture_is_taken_when_it_is_due_and_at_most_every_two_seconds(laptop: Laptop) -> None:
    session, clock = laptop.create(), Clock()
    one, said = captures(laptop, session, clock)
    (laptop.repo / "f").write_bytes(b"1")
    one.take(pause=False)
    first = one.workspace
    assert read(laptop, session, first)[1] == {b"f": b"1"} and len(one.brought()) == 1
    (laptop.repo / "f").write_bytes(b"2")
    clock.now += 10
    one.take(pause=True)
    assert one.workspace == first, "nothing ran that could have written"
    one.after_effect()
    one.take(pause=False)
    second = one.workspace
    assert read(laptop, session, second)[1] == {b"f": b"2"}
    (laptop.repo / "f").write_bytes(b"3")
    one.after_effect()
    clock.now += 1.9
    one.take(pause=False)
    assert one.workspace == second, "too soon"
    clock.now += 0.2
    one.take(pause=False)
    assert read(laptop, session, one.workspace)[1] == {b"f": b"3"}
    (laptop.repo / "f").write_bytes(b"4")
    one.after_effect()
    one.take(pause=True)
    assert read(laptop, session, one.workspace)[1] == {b"f": b"4"}, "a pause does not wait"
    assert not said and len(one.brought()) == 4
    one.written()
    assert not one.brought()


@needs_agent
def test_what_cannot_be_captured_stops_nothing_and_is_said_once(laptop: Laptop) -> None:
    session, clock = laptop.create(), Clock()
    laptop.repo.rmdir()
    repository(laptop.repo)
    one, said = captures(laptop, session, clock)
    one.take(pause=True)
    before = one.workspace
    git(laptop.repo, "bisect", "start")
    for _ in range(3):
        one.after_effect()
        one.take(pause=True)
    assert one.workspace == before and len(said) == 1 and "bisect reset" in said[0]
    git(laptop.repo, "bisect", "reset")
    (laptop.repo / "one").write_bytes(b"changed")
    one.take(pause=True)
    assert read(laptop, session, one.workspace)[1] == {b"one": b"changed"}


@needs_agent
def test_a_home_folder_is_not_captured_unasked(laptop: Laptop, monkeypatch: pytest.MonkeyPatch) -> None:
    session = laptop.create()
    monkeypatch.setenv("HOME", str(laptop.repo))
    one, said = captures(laptop, session, Clock())
    one.take(pause=True)
    assert one.workspace is None and "home folder" in said[0]
    monkeypatch.setenv("HOME", str(laptop.repo / "sub"))
    (laptop.repo / "sub").mkdir()
    other, said = captures(laptop, session, Clock())
    other.take(pause=True)
    assert other.workspace is None and said


@needs_agent
def test_a_new_process_goes_on_from_the_capture_before(laptop: Laptop) -> None:
    session = laptop.create()
    (laptop.repo / "large").write_bytes(os.urandom(3_000_000))
    first, _ = captures(laptop, session, Clock())
    first.take(pause=True)
    size = sum(map(laptop.store.objects.size_of, laptop.store.objects.numbers()))
    (laptop.repo / "small").write_bytes(b"x")
    second = Captures(laptop.store, session, laptop.repo, last=first.workspace, say=lambda _: None, now=Clock())
    second.take(pause=True)
    assert sum(map(laptop.store.objects.size_of, laptop.store.objects.numbers())) - size < 2_000
    assert set(read(laptop, session, second.workspace)[1]) == {b"large", b"small"}


@needs_agent
def test_a_credential_in_a_file_is_found_once_and_never_written_down(laptop: Laptop) -> None:
    session, clock = laptop.create(), Clock()
    (laptop.repo / "config.py").write_text(f"# settings\nTOKEN = '{TOKEN}'\n")
    (laptop.repo / "manual.md").write_text("AKIAIOSFODNN7EXAMPLE\n")
    one, _ = captures(laptop, session, clock)
    one.take(pause=True)
    found = findings.findings(laptop.store, session)
    assert [(each.path, each.line, each.kind) for each in found] == [(b"config.py", 2, "a GitHub token")]
    assert TOKEN not in repr(found)
    (laptop.repo / "copy.py").write_text(f"# settings\nTOKEN = '{TOKEN}'\n")
    (laptop.repo / "other.py").write_text("x\n")
    one.after_effect()
    one.take(pause=True)
    assert findings.findings(laptop.store, session) == found, "the same content is looked at once"
    assert not any(TOKEN.encode() in raw for raw in laptop.store.rows.log(findings.TABLE, session))


@needs_agent
def test_checkpoints_of_a_run_name_the_capture_of_their_moment(laptop: Laptop) -> None:
    laptop.script = [
        says(call("bash", command="echo written > f; echo " + TOKEN)),
        says(text("Done.")),
    ]
    session = laptop.create()
    with laptop.run(session, Person()) as run:
        keeper = run.session.keeper
        keeper.captures = Captures(laptop.store, session, laptop.repo, last=None, say=lambda _: None)  # type: ignore[attr-defined]
        run.go()
    named = [laptop.store.checkpoint(one).workspace for one in laptop.store.checkpoint_ids(session)]
    assert named[0] is None and named[-1] is not None
    assert read(laptop, session, named[1])[1] == {}, "before the command ran"
    assert read(laptop, session, named[-1])[1] == {b"f": b"written\n"}
    found = findings.findings(laptop.store, session)
    assert [(one.path, one.kind) for one in found] == [(None, "a GitHub token")], "what the tool gave"
    brought = [one for at in laptop.store.checkpoint_ids(session) for one in laptop.store.checkpoint(at).objects]
    refs = [capture_ref(one) for one in dict.fromkeys(named) if one is not None]
    assert all(ref is not None and ref.name in brought for ref in refs)
    assert not Check(laptop.store, read_data=True).run().findings
    sweep(laptop.store, keep_days=0)
    assert read(laptop, session, named[-1])[1] == {b"f": b"written\n"}
    head = laptop.store.checkpoint_ids(session)[-1]
    fork = sessions.create_fork(laptop.store, laptop.me, session, head)
    first = laptop.store.checkpoint(laptop.store.checkpoint_ids(fork)[0])
    assert first.workspace == named[-1], "a fork begins with the files of its origin"


@needs_agent
def test_a_removed_session_takes_its_findings_along(laptop: Laptop) -> None:
    session = laptop.create()
    findings.of_text(laptop.store, session, 3, f"token {TOKEN}".encode())
    assert len(findings.findings(laptop.store, session)) == 1
    laptop.store.remove_session(session, (findings.TABLE,))
    assert not findings.findings(laptop.store, session)


class Impatient(Person):
    """A person who presses Ctrl-C as soon as the model says Stop."""

    run: Run

    def text(self, piece: str) -> None:
        if "Stop" in piece:
            self.run.stop.set()


@needs_agent
def test_what_was_put_off_is_captured_where_a_person_is_asked_and_where_they_interrupt(laptop: Laptop) -> None:
    edit = call("write", path="g", content="asked about")
    writes = [says(call("bash", command=f"echo {number} > f")) for number in range(4)]
    laptop.script = [
        *writes[:2],
        says(edit),
        says(call("read", path="f")),
        *writes[2:],
        says(text("Stop.")),
        says(edit),
    ]
    laptop.rules = {"allow": ["bash"]}
    session = laptop.create()
    seen: list[dict[bytes, bytes]] = []

    def now() -> dict[bytes, bytes]:
        head = laptop.store.checkpoint_ids(session)[-1]
        return read(laptop, session, laptop.store.checkpoint(head).workspace)[1]

    class Asked(Impatient):
        def read(self, prompt: str) -> str | None:
            seen.append(now())
            return "y" if len(seen) == 1 else None

    for _ in range(2):
        with laptop.run(session, person := Asked()) as run:
            keeper, person.run = run.session.keeper, run
            last = keeper.workspace  # type: ignore[attr-defined]
            keeper.captures = Captures(  # type: ignore[attr-defined]
                laptop.store, session, laptop.repo, last=last, say=lambda _: None, now=Clock()
            )
            run.go()
    assert seen[0] == {b"f": b"1\n"}, "asked while the second command's capture was put off"
    assert now() == {b"f": b"3\n", b"g": b"asked about"}, "interrupted while the last command's was"
    assert not Check(laptop.store, read_data=True).run().findings


@needs_agent
def test_what_changed_while_a_session_did_not_run_is_said_once_and_nothing_is_overwritten(laptop: Laptop) -> None:
    session = laptop.create()
    for name in "abcde":
        (laptop.repo / name).write_bytes(b"1")
    first, said = captures(laptop, session, Clock())
    first.take(pause=True)
    again = Captures(laptop.store, session, laptop.repo, last=first.workspace, say=said.append, now=Clock())
    again.take(pause=True)
    assert not said and again.workspace == first.workspace, "nothing changed"
    for name in "abcd":
        (laptop.repo / name).write_bytes(b"2")
    (laptop.repo / "e").unlink()
    later = Captures(laptop.store, session, laptop.repo, last=first.workspace, say=said.append, now=Clock())
    for _ in range(2):
        later.after_effect()
        later.take(pause=True)
    assert len(said) == 1 and "knew it: a, b, c and 2 more changed." in said[0]
    assert read(laptop, session, later.workspace)[1] == {name.encode(): b"2" for name in "abcd"}


@needs_agent
def test_a_commit_made_meanwhile_is_said_too(laptop: Laptop) -> None:
    session = laptop.create()
    laptop.repo.rmdir()
    repository(laptop.repo)
    first, said = captures(laptop, session, Clock())
    first.take(pause=True)
    (laptop.repo / "one").write_bytes(b"changed")
    git(laptop.repo, "commit", "-qam", "two")
    later = Captures(laptop.store, session, laptop.repo, last=first.workspace, say=said.append, now=Clock())
    later.take(pause=True)
    assert len(said) == 1 and "stands on another commit" in said[0]


@needs_agent
def test_a_folder_that_goes_away_or_is_too_large_is_said_once_and_stops_nothing(
    laptop: Laptop, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = laptop.create()
    one, said = captures(laptop, session, Clock())
    monkeypatch.setattr("hhd.node.captures.ENTRIES_MAX", 3)
    for number in range(4):
        (laptop.repo / str(number)).write_bytes(b"x")
    for _ in range(3):
        one.after_effect()
        one.take(pause=True)
    assert len(said) == 1 and one.workspace is None, said
    laptop.repo.rename(laptop.repo.with_name("moved"))
    for _ in range(3):
        one.take(pause=True)
    assert len(said) == 2 and "no folder" in said[1]
    monkeypatch.setattr("hhd.node.captures.insist_on_own_folder", lambda _: os.listdir("/nowhere"))
    for _ in range(3):
        one.take(pause=True)
    assert len(said) == 3 and "/nowhere" in said[2]


@needs_agent
def test_to_say_where_a_session_from_elsewhere_works_is_not_to_agree_to_it(laptop: Laptop) -> None:
    session = laptop.create()
    verbs = Workspaces(store=laptop.store, me=laptop.me)
    verbs.map(session.hex(), laptop.repo)
    own = here.noted(laptop.store, session)
    assert own is not None and own.place is not None and own.folder == laptop.repo, "one's own stays one's own"
    here.forget(laptop.store, session)
    verbs.map(session.hex(), laptop.repo)
    noted = here.noted(laptop.store, session)
    assert noted is not None and noted.folder == laptop.repo and noted.place is None
    fork = sessions.create_fork(laptop.store, laptop.me, session, laptop.store.checkpoint_ids(session)[-1])
    for one in (session, fork):
        person = Person()
        with pytest.raises(RefusedError, match="was not made here"):
            laptop.go(one, person)
        assert "Go on with it?" in person.screen


@needs_agent
def test_a_session_that_comes_to_rest_with_nothing_to_save_still_names_its_folder_and_only_if_it_changed(
    laptop: Laptop,
) -> None:
    laptop.script = [says(text("Done."))]
    session = laptop.create()
    with laptop.run(session) as run:
        keeper = run.session.keeper
        one, _ = captures(laptop, session, Clock())
        keeper.captures = one  # type: ignore[attr-defined]
        run.go()
        (laptop.repo / "f").write_bytes(b"late")
        one.after_effect()
        for _ in range(2):
            run.session.flush()
            points = laptop.store.checkpoint_ids(session)
            assert read(laptop, session, laptop.store.checkpoint(points[-1]).workspace)[1] == {b"f": b"late"}
            one.after_effect()
        run.session.flush()
        assert laptop.store.checkpoint_ids(session) == points


def test_in_the_pause_of_a_handoff_a_folder_that_differs_is_captured_anew_and_one_that_does_not_is_not(
    laptop: Laptop, monkeypatch: pytest.MonkeyPatch
) -> None:
    long_ago(monkeypatch)
    session, taken, quiet = laptop.create(), counted(monkeypatch), list[int]()
    one, said = captures(laptop, session, Clock())
    file = laptop.repo / "by-hand"
    file.write_bytes(b"of me")
    one.take(pause=True)
    for _ in range(2):
        one.take(pause=True)
        assert len(taken) == 1, "nothing asked for a look"
    one.look_again(lambda: quiet.append(len(taken)))
    first = one.workspace
    one.take(pause=False)
    assert not quiet, "it runs on"
    for _ in range(2):
        one.take(pause=True)
    assert (len(taken), one.workspace, quiet) == (1, first, [1, 1]), "nothing differs, so it stands"
    unseen(file, b"of us")
    one.take(pause=True)
    assert len(taken) == 2 and read(laptop, session, one.workspace)[1] == {b"by-hand": b"of us"}
    one.look_again()  # As for a look before the pause: what a pause ends first, it ends still.
    one.take(pause=True)
    assert len(taken) == 2 and not said and quiet == [1, 1, 1, 2]


def test_a_capture_made_ahead_stands_unless_somebody_writes_after_it_and_no_checkpoint_names_it_before(
    laptop: Laptop, monkeypatch: pytest.MonkeyPatch
) -> None:
    long_ago(monkeypatch)
    session, taken = laptop.create(), counted(monkeypatch)
    file = laptop.repo / "by-hand"
    file.write_bytes(b"of me")
    keeper = StoreKeeper(laptop.store, laptop.me, session)
    one = keeper.captures = Captures(
        laptop.store, session, laptop.repo, last=keeper.workspace, say=lambda _: None, now=Clock()
    )
    before = laptop.store.checkpoint_ids(session)
    for _ in range(2):
        one.ahead()
        assert (len(taken), laptop.store.checkpoint_ids(session)) == (1, before)
    one.look_again()
    keeper.rest()
    assert len(taken) == 1 and len(laptop.store.checkpoint_ids(session)) == len(before) + 1
    unseen(file, b"of us")
    one.ahead()
    unseen(file, b"of it")
    keeper.rest()
    assert len(taken) == 3 and read(laptop, session, keeper.workspace)[1] == {b"by-hand": b"of it"}
    keeper.close()


def test_what_changed_within_a_tick_of_the_clock_is_captured_again_though_it_looks_the_same(
    laptop: Laptop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(appearance, "TICK_NS", 10**15)
    monkeypatch.setattr(appearance, "RACY_NS", 10**15)
    session, taken = laptop.create(), counted(monkeypatch)
    one, _ = captures(laptop, session, Clock())
    (laptop.repo / "by-hand").write_bytes(b"of me")
    one.take(pause=True)
    one.look_again()
    one.take(pause=True)
    assert len(taken) == 2 and one.appearance is None
