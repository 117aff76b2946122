"""The verbs on sessions that change nothing: where each stands, what a decision would mean, a copy of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from hhd.base.errors import RefusedError, UsageError
from hhd.node import naming, transcripts
from hhd.node.control_ground import Ground
from hhd.node.listing import Listed
from hhd_protocol.bodies import CheckpointBody
from hhd_protocol.ids import CheckpointId, SessionId

if TYPE_CHECKING:
    from hhd.node.answers.decided import Asked, Uncertain
    from hhd.node.answers.difference import Difference
    from hhd.node.answers.heads import Heads
    from hhd.node.answers.logged import Logged
    from hhd.node.answers.made import Exported
    from hhd.node.answers.removal import Removal
    from hhd.node.answers.shown import Shown
    from hhd.node.answers.takeover import Takeable
    from hhd.node.answers.transferred import Transferred
    from hhd.node.logbook import Logbook, Position


class Looking(Ground):
    """What may be seen of the sessions in the store."""

    # Where a session stands, and what it said

    def show(self, name: str, *, head: str | None = None) -> Shown:
        """Return where a session stands, at its main head or at `head`."""
        from hhd.node import findings
        from hhd.node.answers.shown import Shown
        from hhd.node.handoff import notes as handoff_notes

        found = self._session(name)
        handed, notes = handoff_notes.last(self.store, found.id)
        at = self._head(found, head)
        token = None
        if at is not None and (signed := self.store.checkpoint(at).signed()) is not None:
            token = getattr(signed.body, "token", None)
        return Shown(
            session=found.id.hex(),
            title=found.title,
            program=found.program,
            state=found.state.value,
            waiting=found.waiting,
            owner=self._devices.shown(found.owner),
            token=found.token if token is None or head is None else None,
            head=None if at is None else at.hex(),
            heads=found.heads_shown,
            archived=found.archived,
            at_ms=found.at_ms,
            turns=found.turns,
            folder=found.folder,
            suspects=findings.count(self.store, found.id),
            handed=None if handed is None else self._devices.shown(handed),
            notes=notes,
        )

    def transcript(self, name: str, *, head: str | None = None, start: int = 0) -> Iterator[bytes]:
        """Yield what a session said, in parts, from byte `start` on; raises ThinnedError where that is gone."""
        found = self._session(name)
        at = self._head(found, head)
        if at is not None:
            yield from transcripts.parts(self.store, self.store.checkpoint(at), start)

    def transcript_bytes(self, name: str) -> int:
        """Return how many bytes a session has said; raises ThinnedError where that is gone."""
        at = self._head(self._session(name), None)
        return 0 if at is None else transcripts.size(self.store, self.store.checkpoint(at))

    def log(self, name: str, *, since: str | None = None, newest: int | None = None) -> list[Logged]:
        """Return every statement of a session that came after the position `since`; the last `newest` of them."""
        return self._logged(self._logbook(self._session(name).id), since, newest)[0]

    def follow(
        self, name: str, *, since: str | None = None, newest: int | None = None, wait: Callable[[], bool]
    ) -> Iterator[Logged]:
        """Yield the same, and then what comes, until `wait`, which waits a moment, returns False."""
        book = self._logbook(self._session(name).id)
        told, position = self._logged(book, since, newest)
        yield from told
        yield from book.follow(position, wait)

    def _logged(self, book: Logbook, since: str | None, newest: int | None) -> tuple[list[Logged], Position]:
        from hhd.node.logbook import Position

        if since is None and newest is not None:
            return book.newest(newest)
        told, position = book.since(Position() if since is None else Position.parse(since))
        return told if newest is None else told[max(0, len(told) - newest) :], position

    # Its heads

    def heads(self, name: str, *, with_archived: bool = False) -> Heads:
        """Return the heads of a session; those that are archived only `with_archived`."""
        found = self._session(name)
        of = self._heads_of(found)
        from hhd.node.answers.heads import Heads

        shown = of.all() if with_archived else of.listed()
        return Heads(
            session=found.id.hex(),
            title=found.title,
            heads=shown,
            removed=bool(of.lineage.view.beyond_removal),
            left_out=len(of.lineage.tips) - len(shown),
        )

    def diff(self, name: str, one: str | None = None, other: str | None = None) -> Difference:
        """Return what two heads did apart; those two of a session that has two, if none is named."""
        found = self._session(name)
        if one is not None and other is not None:
            ids = self.store.checkpoint_ids(found.id)
            names = self._head_names(found)
            pair = [naming.checkpoint_of(ids, each, names) for each in (one, other)]
        else:
            heads = self._two_heads(found) or self._lineage(found.id).heads
            if one is not None:
                pair = [*(head for head in heads[:1]), naming.head(heads, one, self._head_names(found))]
            elif len(heads) == 2:
                pair = heads
            else:
                raise self._not_two(found, len(heads))
        if pair[0] == pair[1]:
            raise UsageError("These are one head, and not two; name another.")
        from hhd.node.difference import Comparison

        return Comparison(store=self.store, listed=found, devices=self._devices).of(pair[0], pair[1])

    def _two_heads(self, found: Listed) -> list[CheckpointId]:
        """The two heads of a session that clearly has two, the one under the higher token first; else none.

        Two ends of members' work are two heads; which of them is the owner's, the whole lineage would say more slowly.
        """
        from hhd.node.ends import ends

        tips = ends(self.store, found.id)
        if found.heads != 2 or len(tips) != 2:
            return []
        numbered = []
        for tip in tips:
            signed = self.store.statements.get(found.id, tip)
            body = None if signed is None else signed.body
            if not isinstance(body, CheckpointBody) or body.by not in self._devices.members:
                return []
            record = self.store.statements.get(found.id, body.token)
            numbered.append((0 if record is None else getattr(record.body, "number", 1), tip))
        return [tip for _, tip in sorted(numbered, reverse=True)]

    def _not_two(self, found: Listed, count: int) -> Exception:
        shown = found.id.hex()[: naming.ID_SHOWN]
        if count < 2:
            return RefusedError(f"Session {shown} has one head only, so there is nothing to compare.")
        return UsageError(f"Session {shown} has {count} heads; name two of them (hhd heads {shown} lists them).")

    # What a person is shown before they decide

    def uncertain(self, name: str, effect: str | None = None) -> Uncertain:
        """Return the effect that may have run, to be shown before a person settles it."""
        from hhd.node.pending import effect_number

        return self._pending(name).told(effect_number(effect))

    def asked(self, name: str, effect: str | None = None, *, folder: Path | None = None) -> Asked:
        """Return what a person would be asked before the effect that waits is run in `folder`."""
        from hhd.node.pending import effect_number

        return self._pending(name).asked(effect_number(effect), folder)

    def removal(self, name: str, *, everywhere: bool = False) -> Removal:
        """Say what removing a session would destroy: to be shown to the person, and given to `remove`."""
        found = self._session(name)
        return self._remover.would(found, self._lineage(found.id), everywhere=everywhere)

    def takeable(self, name: str, *, head: str | None = None) -> Takeable:
        """Say what taking a session over would mean: to be shown to the person, and given to `take_over`."""
        found = self._session(name)
        return self._taker.would(found, None if head is None else self._head(found, head))

    # On its way

    def transfers(self) -> list[Transferred]:
        """Return every handoff that this device has or had a part in, newest first."""
        from hhd.node import transferred

        return transferred.listed(self.store, self._devices)

    def insist_on_release(self, name: str, to: str) -> None:
        """Raise RefusedError where `release` would refuse whatever state the session is in: before that is paused."""
        from hhd.node import release_file

        release_file.insist(self.store, self.me, self._session(name).id, naming.device(self._devices.all(), to))

    def export(
        self,
        name: str,
        *,
        head: str | None = None,
        to: str | None = None,
        passphrase: bytes | None = None,
        embed: bool = True,
    ) -> Exported:
        """Return a session as a capsule file, in parts; sealed to the device `to`, or with `passphrase`."""
        if to is not None and passphrase is not None:
            raise UsageError("A capsule is sealed to a device or with a passphrase, not both.")
        found = self._session(name)
        checkpoint = self._head(found, head)
        if checkpoint is None:
            raise RefusedError(f"Session {found.id.hex()[: naming.ID_SHOWN]} has no checkpoint to export yet.")
        from hhd.node import exporting
        from hhd.node.answers.made import Exported
        from hhd.node.exporting import Seal

        seal, target = None, None
        if to is not None:
            target = naming.device(self._devices.all(), to)
            seal = Seal(to_public=self._devices.members[target].public)
        elif passphrase is not None:
            seal = Seal(passphrase=passphrase)
        return Exported(
            session=found.id.hex(),
            title=found.title,
            checkpoint=checkpoint.hex(),
            to=None if target is None else self._devices.shown(target),
            sealed=seal is not None,
            parts=exporting.exported(self.store, self.me, found.id, checkpoint, seal, embed=embed),
        )

    # What the verbs rest on

    def _logbook(self, session: SessionId) -> Logbook:
        from hhd.node.logbook import Logbook

        return Logbook(store=self.store, session=session, read=lambda: self._lineage(session), devices=self._devices)
