"""Sessions on their way from device to device: handed on, in a file too, and taken over."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from hhd.app import sessions
from hhd.base.errors import RefusedError, RolledBackError, UncertainError, UsageError, UserError

if TYPE_CHECKING:
    from hhd.node.answers.handoff import Moved
    from hhd.node.answers.made import Received, Released
    from hhd.node.handoff.handoffs import Handoffs
    from hhd.node.handoff.ports import Syncing
    from hhd.node.lanes import Lanes
    from hhd.node.peers import Peers
    from hhd.node.workers import Workers
    from hhd_protocol.ids import DeviceId, SessionId


def release_to_file(name: str, to: str, path: Path, *, force: bool) -> tuple[Released, int]:
    """Release a session to the device `to`, and write the file that it takes it from; what it is, and its length.

    A session that runs is paused first, unless it is refused. Where the file cannot be written after all, the same once
    more writes it.
    """
    import tempfile

    from hhd.node import capsule_file

    if to == "here":
        raise UsageError(
            "A release file is for another device, which takes it with: hhd receive FILE. Name that one instead of "
            "'here'."
        )
    capsule_file.insist_on_new(path, force=force)
    if os.path.lexists(path) and not path.is_file():
        raise RefusedError(f"{path} is no plain file, so no release is written there; nothing was changed.")
    parent = path.absolute().parent
    try:
        with tempfile.TemporaryFile(dir=parent):  # Tried, since a right to write is no file yet: before it is released.
            pass
    except OSError as error:
        raise RefusedError(f"Nothing can be written in {parent} ({error.strerror}); nothing was changed.") from None
    with sessions.control_here() as verbs:
        verbs.insist_on_release(name, to)
    try:
        _pause(name)
    except KeyboardInterrupt:
        raise RolledBackError(
            f"Interrupted before it was released. If it does not run here: hhd resume {name}"
        ) from None
    again = "the same command writes the file"
    made: Released | None = None
    with sessions.control_here() as verbs:
        try:
            made = verbs.release(name, to)
            return made, capsule_file.write_bytes(path, list(made.parts), force=force)
        except KeyboardInterrupt:
            state = (
                "may be released by now: hhd transfers shows it, and" if made is None else "is released all the same;"
            )
            raise UncertainError(f"Interrupted. The session {state} {again}.") from None
        except UserError as error:
            if made is None:
                raise
            raise UncertainError(f"{error} The session is released all the same; {again}.") from error


def _pause(name: str) -> None:
    link = sessions.daemon_link()
    if link is None:
        return
    from hhd.node.answers.driven import Rested
    from hhd.node.asking import Asking

    with link:
        Asking(link).ask("pause", Rested, name=name)


class Transfer:
    """A handoff of a session on to the device `to` ("here": this one), by the daemon. As a context, it ends its link.

    Who ends that before the session is released gives the handoff up; so does `leave`, which says what became of it.
    """

    def __init__(self, name: str, to: str, *, cancel_running: bool, dry_run: bool, deadline_ms: int) -> None:
        self._name, self._to, self._cancel_running = name, to, cancel_running
        self._dry_run, self._deadline_ms = dry_run, deadline_ms
        link = sessions.daemon_link()
        if link is None:
            from hhd.app import daemons

            daemons.up()
            link = sessions.daemon_link()
        if link is None:
            raise RefusedError("No daemon runs here, and sessions are handed on by it: hhd up")
        self._link = link

    def __enter__(self) -> Transfer:
        return self

    def __exit__(self, *_: object) -> None:
        self._link.close()

    def steps(self) -> Iterator[Moved]:
        """Yield each step; the last one is over. A dry run has one.

        Raises UncertainError where the daemon ends meanwhile: what it has begun, the next one goes on with.
        """
        from hhd.node.answers.handoff import Moved
        from hhd.node.asking import Asking

        try:
            asking = Asking(self._link)
            yield from (asking.stream if self._dry_run else asking.steps)(
                "transfer",
                Moved,
                name=self._name,
                to=self._to,
                cancel_running=self._cancel_running,
                dry_run=self._dry_run,
                deadline_ms=self._deadline_ms,
            )
        except UncertainError as error:
            raise UncertainError(f"{error} How it stands: hhd transfers") from error

    def leave(self, last: Moved | None) -> Moved:
        """Give it up, unless it is released, and return how it stands then; `last`: the last step that was seen.

        It is asked over a link of its own: the steps may have been left in the middle of one.
        """
        from hhd.node.answers.handoff import Moved
        from hhd.node.asking import Asking

        link = sessions.daemon_link()
        if link is None:
            raise UncertainError("The daemon ended meanwhile. How it stands: hhd transfers")
        with link:
            found: Moved = Asking(link).ask(
                "transfer_abort", Moved, name=self._name, transfer="" if last is None else last.transfer
            )
            return found


def reason(words: str) -> str:
    """A person's reason as it is signed; raises UsageError where it may not be, before they are asked anything."""
    from hhd.node import reason as reasons

    return reasons.judged(words)


def receive(path: Path) -> Received:
    """Take the session that the release file `path` hands to this device."""
    from hhd.node import capsule_file

    raw = capsule_file.read_bytes(path)
    with sessions.control_here() as verbs:
        return verbs.receive(raw, path)


def part(workers: Workers, peers: Peers, syncing: Syncing, me: DeviceId, lanes: Lanes) -> Handoffs:
    """The daemon's part that hands sessions on."""
    from hhd.node.handoff.handoffs import Handoffs
    from hhd.node.handoff.ways import Ways

    made = Handoffs(
        Ways(me=me, opened=sessions.control_here, lanes=lanes, peers=peers, syncing=syncing, workers=workers)
    )

    def news(session: SessionId) -> None:
        for hear in workers.on_step:
            hear(session)

    made.on_change.append(news)
    return made
