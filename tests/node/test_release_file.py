"""A session handed on in a file: taken once, by the device that it is for, with all that it needs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from tests.e2e.lab import call, needs_agent, says, text
from tests.node.driven import GLOB, Person
from tests.node.two import Device, brought, devices, waits_for_a_yes

from hhd.app import handoffs
from hhd.base.errors import RefusedError, RolledBackError, UncertainError, UserError
from hhd.node import capsule_file, here, listing, opening, release_file, sessions
from hhd.node.ended import End
from hhd.node.handoff import journal as handoff_journal
from hhd.node.handoff import steps as handoff_steps
from hhd.node.sync.wishes import Wishes
from hhd.runtime.outcomes import StopFlag
from hhd.store.errors import BusyError
from hhd_protocol.handoff import Stage
from hhd_protocol.ids import SessionId
from hhd_protocol.statements import RecordKind

pytestmark = needs_agent

COUNT = says(call("bash", command="echo x >> runs; echo one"))
SCRIPT = [GLOB, COUNT, says(text("Done."))]


@pytest.fixture
def three(tmp_path: Path) -> Iterator[list[Device]]:
    with devices(tmp_path, SCRIPT, "laptop", "desktop", "tower", rules={"allow": []}) as made:
        yield made


@pytest.fixture
def asking(three: list[Device]) -> SessionId:
    """A session on the laptop that waits for a yes to its command, not begun."""
    return waits_for_a_yes(three[0])


def released(source: Device, target: Device, session: SessionId, name: str) -> bytes:
    made = source.control.release(session.hex(), name)
    return b"".join(bytes(part) for part in made.parts)


def test_the_pending_command_runs_once_where_the_session_was_taken(three: list[Device], asking: SessionId) -> None:
    laptop, desktop, _ = three
    before = laptop.transcript(asking)
    raw = released(laptop, desktop, asking, "desktop")
    view = sessions.view(laptop.store, laptop.me, asking)
    assert view.owner == desktop.me.id and view.token is not None and view.token.number == 2
    with pytest.raises(RefusedError, match="another device owns this session"):
        laptop.go_here(asking)
    done = desktop.control.receive(raw, Path("release"))
    assert done.title == "go" and done.by.name == "laptop" and done.notes == ()
    assert desktop.transcript(asking) == before
    folder = Path(done.folder)
    assert (folder / "notes").read_text() == "of the laptop\n", "its files are those of that moment"
    assert not sessions.view(desktop.store, desktop.me, asking).uncertain, "a release proves that it was not started"
    desktop.rules = {"allow": ["bash"]}
    assert desktop.go_here(asking).end is End.WAITING, "it waits for the person's next words"
    assert (folder / "runs").read_text() == "x\n" and not (laptop.repo / "runs").exists()
    entry = listing.get(laptop.store, asking)
    assert entry is not None and entry.owner == desktop.me.id


def test_what_was_written_into_the_folder_by_hand_before_the_release_goes_along(
    three: list[Device], asking: SessionId
) -> None:
    laptop, desktop, _ = three
    (laptop.repo / "notes").write_text("by hand\n")
    done = desktop.control.receive(released(laptop, desktop, asking, "desktop"), Path("release"))
    assert (Path(done.folder) / "notes").read_text() == "by hand\n"


def test_it_is_taken_once_and_nowhere_else(three: list[Device], asking: SessionId) -> None:
    laptop, desktop, tower = three
    raw = released(laptop, desktop, asking, "desktop")
    with pytest.raises(RefusedError, match="sealed to another device"):
        tower.control.receive(raw, Path("release"))
    with pytest.raises(RefusedError, match="sealed to another device"):
        laptop.control.receive(raw, Path("release"))
    desktop.control.receive(raw, Path("release"))
    with pytest.raises(RefusedError, match="was taken from this file already"):
        desktop.control.receive(raw, Path("release"))
    assert tower.store.sessions() == []


def test_the_same_command_again_writes_the_same_release_and_for_another_device_it_is_refused(
    three: list[Device], asking: SessionId
) -> None:
    laptop, desktop, _ = three
    first = laptop.control.release(asking.hex(), "desktop")
    again = laptop.control.release(asking.hex(), "desktop")
    assert (first.fresh, again.fresh) == (True, False)
    records = [one for one in sessions.known(laptop.store, laptop.me, asking).records]
    assert [one.kind for one in records].count(RecordKind.RELEASE) == 1
    with pytest.raises(RefusedError, match="another device owns"):
        laptop.control.release(asking.hex(), "tower")
    raw = b"".join(bytes(part) for part in again.parts)
    assert desktop.control.receive(raw, Path("release")).session == asking.hex()


def test_a_session_that_is_kept_back_from_a_device_goes_there_in_no_file(
    three: list[Device], asking: SessionId
) -> None:
    laptop, desktop = three[0], three[1]
    Wishes(laptop.me.id).follow(laptop.store, asking, desktop.me.id, False)
    with pytest.raises(RefusedError, match="is not to go to desktop; nothing was changed"):
        release_file.insist(laptop.store, laptop.me, asking, desktop.me.id)
    release_file.insist(laptop.store, laptop.me, asking, three[2].me.id)


def test_a_session_that_is_advanced_is_not_released(three: list[Device], asking: SessionId) -> None:
    laptop = three[0]
    with laptop.store.advance(asking), pytest.raises(BusyError):
        laptop.control.release(asking.hex(), "desktop")
    assert sessions.view(laptop.store, laptop.me, asking).owner == laptop.me.id
    assert laptop.control.transfers() == []


def test_to_itself_a_device_writes_no_release_and_is_told_the_way_that_there_is(
    three: list[Device], asking: SessionId
) -> None:
    laptop, desktop = three[:2]
    brought(laptop, desktop, asking)
    with pytest.raises(
        RefusedError, match=rf"^Another device has session .*: hhd transfer {asking.hex()[:12]}\w* here$"
    ):
        desktop.control.insist_on_release(asking.hex(), "desktop")
    with pytest.raises(RefusedError, match="The session is on this device"):
        laptop.control.insist_on_release(asking.hex(), "laptop")


@pytest.mark.parametrize("to", ["laptop", "nobody"])
def test_what_is_refused_pauses_nothing_and_what_is_not_is_paused_first(
    three: list[Device], asking: SessionId, tmp_path: Path, to: str
) -> None:
    laptop, paused = three[0], []
    with (
        mock.patch.object(handoffs, "_pause", paused.append),
        mock.patch.object(handoffs.sessions, "control_here", lambda: contextlib.nullcontext(laptop.control)),
    ):
        with pytest.raises(UserError):
            handoffs.release_to_file(asking.hex(), to, tmp_path / "file", force=False)
        assert paused == [] and not (tmp_path / "file").exists()
        with pytest.raises(RefusedError, match="no plain file"):
            handoffs.release_to_file(asking.hex(), "desktop", tmp_path, force=True)
        assert paused == [] and laptop.control.transfers() == []
        full = mock.patch.object(capsule_file, "write_bytes", side_effect=UserError("The disk is full."))
        with full, pytest.raises(UncertainError, match="the same command writes the file"):
            handoffs.release_to_file(asking.hex(), "desktop", tmp_path / "file", force=False)
        with (
            mock.patch.object(capsule_file, "write_bytes", side_effect=KeyboardInterrupt),
            pytest.raises(UncertainError, match="is released all the same; the same command writes the file"),
        ):
            handoffs.release_to_file(asking.hex(), "desktop", tmp_path / "file", force=False)
        with (
            mock.patch.object(release_file, "release_to", side_effect=KeyboardInterrupt),
            pytest.raises(UncertainError, match="may be released by now"),
        ):
            handoffs.release_to_file(asking.hex(), "desktop", tmp_path / "file", force=False)
        with (
            mock.patch.object(handoffs, "_pause", side_effect=KeyboardInterrupt),
            pytest.raises(RolledBackError, match="before it was released"),
        ):
            handoffs.release_to_file(asking.hex(), "desktop", tmp_path / "file", force=False)
        paused.clear()
        handoffs.release_to_file(asking.hex(), "desktop", tmp_path / "file", force=False)
        assert paused == [asking.hex()] and (tmp_path / "file").exists()
        with pytest.raises(RefusedError, match="Another device has"):
            handoffs.release_to_file(asking.hex(), "tower", tmp_path / "other", force=False)
        assert paused == [asking.hex()]


def test_who_goes_on_with_a_session_whose_records_came_by_themselves_takes_it_with_its_files(
    three: list[Device], asking: SessionId
) -> None:
    laptop, desktop, _ = three
    raw = released(laptop, desktop, asking, "desktop")
    brought(laptop, desktop, asking)
    desktop.rules = {"allow": ["bash"]}
    with opening.stored(
        desktop.store, desktop.me, asking, folder=None, model=None, face=Person(), stop=StopFlag(), here=desktop.here()
    ) as run:
        run.go()
    noted = here.noted(desktop.store, asking)
    assert noted is not None and noted.folder is not None
    assert (noted.folder / "notes").read_text() == "of the laptop\n"
    assert (noted.folder / "runs").read_text() == "x\n"
    assert [one.stage for one in desktop.control.transfers()] == ["taken"]
    with pytest.raises(RefusedError, match="already"):
        desktop.control.receive(raw, Path("release"))


def test_what_a_file_brought_is_begun_by_a_person_and_by_no_daemon(three: list[Device], asking: SessionId) -> None:
    laptop, desktop, _ = three
    desktop.control.receive(released(laptop, desktop, asking, "desktop"), Path("release"))
    (record,) = handoff_journal.unfinished(desktop.store)
    assert handoff_steps.is_opened(desktop.store, record.transfer), (
        "its files are here: a start of the daemon begins none"
    )


def test_a_session_goes_there_and_back_in_files(three: list[Device], asking: SessionId) -> None:
    laptop, desktop, _ = three
    desktop.control.receive(released(laptop, desktop, asking, "desktop"), Path("release"))
    back = released(desktop, laptop, asking, "laptop")
    done = laptop.control.receive(back, Path("release"))
    assert sessions.view(laptop.store, laptop.me, asking).owner == laptop.me.id
    assert done.folder == str(laptop.repo) and not done.instead, "its files are where it was at work here"
    noted = here.noted(laptop.store, asking)
    assert noted is not None and noted.folder == laptop.repo
    stages = [one.stage for one in laptop.control.transfers()]
    assert stages == ["taken", "acknowledged"], "it came back, so it had been taken"
    laptop.rules = {"allow": ["bash"]}
    laptop.go_here(asking)
    assert (laptop.repo / "runs").read_text() == "x\n"


def test_a_file_that_was_changed_anywhere_or_cut_is_refused_and_changes_nothing(
    three: list[Device], asking: SessionId
) -> None:
    laptop, desktop, _ = three
    raw = released(laptop, desktop, asking, "desktop")
    step = max(1, len(raw) // 40)
    for at in range(0, len(raw), step):
        for wrong in (raw[:at], raw[:at] + bytes((raw[at] ^ 1,)) + raw[at + 1 :]):
            with pytest.raises(RefusedError):
                desktop.control.receive(wrong, Path("release"))
    assert desktop.store.sessions() == [] and list(handoff_journal.every(desktop.store)) == []
    desktop.control.receive(raw, Path("release"))


def test_a_release_that_was_taken_over_meanwhile_is_not_taken(three: list[Device], asking: SessionId) -> None:
    laptop, desktop, _ = three
    raw = released(laptop, desktop, asking, "desktop")
    shown = laptop.control.takeable(asking.hex())
    (doubt,) = shown.doubts
    assert shown.handoff == "released" and doubt.op == "tool", "the desktop may have taken it, and have run that"
    done = laptop.control.take_over(shown, "the desktop never took it")
    assert done.token == 3 and done.uncertain
    (closed,) = laptop.control.transfers()
    assert (closed.stage, closed.over) == ("superseded", True)
    brought(laptop, desktop, asking)
    with pytest.raises(RefusedError, match="a newer record beats that"):
        desktop.control.receive(raw, Path("release"))
    assert laptop.go_here(asking, Person(answers=["n"])).end is End.WAITING


def test_a_capsule_is_no_release_and_a_release_no_capsule(three: list[Device], asking: SessionId) -> None:
    laptop, desktop, _ = three
    capsule = b"".join(bytes(part) for part in laptop.control.export(asking.hex(), to="desktop").parts)
    with pytest.raises(RefusedError, match="a copy and hands nothing on"):
        desktop.control.receive(capsule, Path("capsule"))
    with pytest.raises(RefusedError, match="no release of a session"):
        desktop.control.receive(b"anything", Path("capsule"))
    with pytest.raises(RefusedError):
        desktop.control.import_capsule(released(laptop, desktop, asking, "desktop"), Path("release"))


def test_the_store_of_the_target_put_back_takes_nothing_under_the_release_it_had_taken(
    three: list[Device], asking: SessionId
) -> None:
    """The source has the acknowledgement, and says so: `already`."""
    from hhd.node import denials
    from hhd.node.doors import Doors
    from hhd_protocol.holding import Why

    laptop, desktop, _ = three
    raw = released(laptop, desktop, asking, "desktop")
    desktop.control.receive(raw, Path("release"))
    record = next(handoff_journal.every(desktop.store))
    assert record.stage is Stage.TAKEN and record.release is not None
    assert Doors(desktop.store, desktop.me, asking).may_append() is None
    with desktop.store.transaction():
        denials.deny(desktop.store, asking, record.release)
    refusal = Doors(desktop.store, desktop.me, asking).may_append()
    assert refusal is not None and refusal.why is Why.ROLLED_BACK
    shown = desktop.control.takeable(asking.hex())
    assert desktop.control.take_over(shown, "put back from a backup").token == 3
    assert Doors(desktop.store, desktop.me, asking).may_append() is None
