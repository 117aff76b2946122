"""What may be asked of sessions, one method a verb: the same whoever asks, a terminal here or, later, a socket.

Arguments and answers are plain values (`hhd.node.answers`); what is told as it comes is an iterator. What cannot be
done is a UserError. Who asks names sessions, heads, checkpoints and devices as `hhd.node.naming` says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from hhd.base.errors import RefusedError, UsageError
from hhd.identity.key import Identity
from hhd.node import naming, registry, transcripts
from hhd.node.answers import Difference, Heads, Logged, Shown, Wished
from hhd.node.devices import Devices
from hhd.node.difference import Comparison
from hhd.node.heads import HeadsOf
from hhd.node.lineages import Lineage, lineage_of
from hhd.node.listing import Listed
from hhd.node.logbook import Logbook, Position
from hhd.node.members import members
from hhd.node.wishes import Wishes
from hhd.store.store import Store
from hhd_protocol.ids import CheckpointId, SessionId


@dataclass(frozen=True, kw_only=True)
class ControlService:
    """The verbs on the sessions in `store`, asked of this device, `me`."""

    store: Store
    me: Identity

    # Looking

    def show(self, name: str, *, head: str | None = None) -> Shown:
        """Return where a session stands, at its main head or at `head`."""
        found = self._session(name)
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
            heads=found.heads,
            archived=found.archived,
            at_ms=found.at_ms,
            turns=found.turns,
            folder=found.folder,
        )

    def transcript(self, name: str, *, head: str | None = None) -> Iterator[bytes]:
        """Yield what a session said, in parts; raises ThinnedError where that is gone."""
        found = self._session(name)
        at = self._head(found, head)
        if at is not None:
            yield from transcripts.parts(self.store, self.store.checkpoint(at))

    def log(self, name: str, *, since: str | None = None) -> list[Logged]:
        """Return every statement of a session that came after the position `since`."""
        found = self._session(name)
        start = Position() if since is None else Position.parse(since)
        return self._logbook(found.id).since(start)[0]

    def follow(self, name: str, *, since: str | None = None, wait: Callable[[], bool]) -> Iterator[Logged]:
        """Yield the same, and then what comes, until `wait`, which waits a moment, returns False."""
        found = self._session(name)
        start = Position() if since is None else Position.parse(since)
        yield from self._logbook(found.id).follow(start, wait)

    def heads(self, name: str) -> Heads:
        """Return the heads of a session."""
        found = self._session(name)
        lineage = self._lineage(found.id)
        shown = HeadsOf(store=self.store, lineage=lineage, devices=self._devices, picked=found.picked).all()
        return Heads(session=found.id.hex(), title=found.title, heads=shown)

    def diff(self, name: str, one: str | None = None, other: str | None = None) -> Difference:
        """Return what two heads did apart; those two of a session that has two, if none is named."""
        found = self._session(name)
        if one is not None and other is not None:
            ids = self.store.checkpoint_ids(found.id)
            pair = [naming.checkpoint_of(ids, each) for each in (one, other)]
        else:
            heads = self._lineage(found.id).heads
            if one is not None:
                pair = [*(head for head in heads[:1]), naming.head(heads, one)]
            elif len(heads) == 2:
                pair = heads
            else:
                raise self._not_two(found, len(heads))
        if pair[0] == pair[1]:
            raise UsageError("These are one head, and not two; name another.")
        return Comparison(store=self.store, listed=found, devices=self._devices).of(pair[0], pair[1])

    # Wishing

    def rename(self, name: str, title: str | None) -> Wished:
        """Give a session a title; None: take it away, so that its first words are its title again."""
        return self._wishes.rename(self._session(name).id, title)

    def archive(self, name: str, *, undo: bool = False) -> Wished:
        """Hide a session from lists; `undo`: show it again."""
        return self._wishes.archive(self._session(name).id, not undo)

    def pick(self, name: str, head: str | None) -> Wished:
        """Say which head of a session is preferred, None: none of them. It moves nothing."""
        found = self._session(name)
        chosen = None if head is None else naming.head(self._lineage(found.id).heads, head)
        wished = self._wishes.pick(found.id, chosen)
        return replace(wished, before=None if found.picked is None else found.picked.hex(), after=_hex(chosen))

    # How names are meant

    def _session(self, name: str) -> Listed:
        return naming.session(self.store, name)

    def _head(self, found: Listed, name: str | None) -> CheckpointId | None:
        """The head that `name` means, the main one without; None for a session that has no checkpoint yet."""
        if name is not None:
            return naming.checkpoint(self.store, found.id, name)
        if found.heads == 1:  # Then it is the last checkpoint that came, since parents come first.
            return next(reversed(self.store.checkpoint_ids(found.id)), None)
        lineage = self._lineage(found.id)
        if lineage.view.main is not None:
            return CheckpointId(lineage.view.main)
        if lineage.heads:
            raise RefusedError(
                f"Session {found.id.hex()[: naming.ID_SHOWN]} has {len(lineage.heads)} heads and none of them leads; "
                "name one (hhd heads lists them)."
            )
        return None

    def _not_two(self, found: Listed, count: int) -> Exception:
        shown = found.id.hex()[: naming.ID_SHOWN]
        if count < 2:
            return RefusedError(f"Session {shown} has one head only, so there is nothing to compare.")
        return UsageError(f"Session {shown} has {count} heads; name two of them (hhd heads {shown} lists them).")

    # What the verbs rest on

    @cached_property
    def _devices(self) -> Devices:
        names, _ = registry.device_names(self.store)
        return Devices(me=self.me.id, members=members(self.store, self.me), names=names)

    @property
    def _wishes(self) -> Wishes:
        return Wishes(store=self.store, devices=self._devices)

    def _lineage(self, session: SessionId) -> Lineage:
        return lineage_of(self.store, session, members(self.store, self.me))

    def _logbook(self, session: SessionId) -> Logbook:
        return Logbook(store=self.store, session=session, read=lambda: self._lineage(session), devices=self._devices)


def _hex(id: bytes | None) -> str | None:
    return None if id is None else id.hex()
