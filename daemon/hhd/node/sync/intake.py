"""Takes in what a peer gave of a session: checked, sorted, and kept in one transaction, or not at all.

The third door. What breaks a rule by its own signer costs that signer's link; what another one signed and is refused is
not kept. Everything else that verifies is kept, whatever it means: competing heads are never refused.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from hhd.identity.key import Identity
from hhd.node import findings, here
from hhd.node.members import Member, members
from hhd.node.removal import TABLES
from hhd.node.sync import listing as syncing_listing
from hhd.node.sync.content import Content, Unsound, as_checkpoint
from hhd.node.sync.known import Judged
from hhd.node.sync.outliving import Outliving
from hhd.store.arrived import read_payload
from hhd.store.checkpoints import Checkpoint
from hhd.store.errors import BusyError, MissingError
from hhd.store.store import Store
from hhd_protocol import lineage
from hhd_protocol.bodies import CheckpointBody, CreateBody, TombstoneBody
from hhd_protocol.crypto import decode_wrapped
from hhd_protocol.errors import FormatError
from hhd_protocol.fencing import View
from hhd_protocol.holding import Known
from hhd_protocol.ids import (
    CheckpointId,
    DeviceId,
    EpochId,
    FamilyId,
    ObjectName,
    SessionId,
    Sha256,
    StatementId,
)
from hhd_protocol.limits import SYNC_STATEMENTS_MAX, SYNC_WANTS_MAX
from hhd_protocol.lineage import Signed
from hhd_protocol.objects import object_name
from hhd_protocol.sync.letters import Letter
from hhd_protocol.sync.messages import Entry, Keys, Statements

log = logging.getLogger(__name__)


class Refused(FormatError):
    """What a peer gave breaks the rules; it costs the link."""


class NoKeys(Exception):
    """The keys of the session's family are not here yet."""


@dataclass(frozen=True, kw_only=True)
class Taken:
    """What came of it.

    `fresh`: statements that are new here. `durable`: what may be acknowledged. `whole`: checkpoints whose content is
    here from now on, or was when they came once more: who gave them waits for that. `removed`: the session is gone from
    here. `fenced`: the owner is another one than before. `outlived`: it is removed here, and what shows that work
    outlives that came without the record that created it: ask for all of it. `revision`: of the session when this was
    written.
    """

    session: SessionId
    revision: bytes
    fresh: Mapping[StatementId, StatementId | None] = field(default_factory=dict)
    durable: tuple[StatementId, ...] = ()
    whole: tuple[CheckpointId, ...] = ()
    removed: bool = False
    fenced: bool = False
    outlived: bool = False
    refused: int = 0

    def then(self, later: Taken) -> Taken:
        """Return what this and one that came after it come to together; none of them a removal."""
        assert self.session == later.session and not any(one.removed or one.outlived for one in (self, later))
        return Taken(
            session=self.session,
            revision=later.revision,
            fresh={**self.fresh, **later.fresh},
            durable=tuple(dict.fromkeys([*self.durable, *later.durable])),
            whole=tuple(dict.fromkeys([*self.whole, *later.whole])),
            fenced=self.fenced or later.fenced,
            refused=self.refused + later.refused,
        )


class Intake:
    """Takes into `store` what comes for the device `me`."""

    def __init__(self, store: Store, me: Identity, content: Content) -> None:
        self._store, self._me, self._content = store, me, content
        self._known = Judged(store, me)
        self._outliving = Outliving()
        self._unlisted: dict[SessionId, tuple[View, bool, int]] | None = None
        """What lists are to show of sessions, where it is written at the end of a transaction: what these mean, whether
        content came, and how many turns more they have."""

    @contextmanager
    def together(self) -> Iterator[None]:
        """Within, what is taken becomes durable at the end, all of it or nothing; lists are written once a session."""
        outlived = self._outliving.copy()
        try:
            with self._store.transaction():
                self._unlisted = {}
                yield
                for session, (view, changed, turns) in self._unlisted.items():
                    syncing_listing.show(self._store, session, view, changed=changed, turns=turns)
        except BaseException:
            self._outliving = outlived
            self.forget()
            raise
        finally:
            self._unlisted = None

    # Keys

    def keys(self, peer: DeviceId, message: Keys) -> None:
        """Keep the keys of a family that a full member wrapped for this device; raises Refused."""
        wrapped = [decode_wrapped(raw) for raw in message.wrapped]
        if not wrapped or any(one.family != message.family or one.by != peer for one in wrapped):
            raise Refused("wrapped keys are not of the family, or the device, that they came for")
        public = self._members()[peer].public
        store = self._store
        with store.transaction():
            epoch = message.epoch
            if store.families.holds(message.family):  # What is sealed under here is not moved back by an older device.
                before = store.families.get(message.family)
                epoch = before.epoch if epoch in before.epochs else epoch
            try:
                store.families.accept(wrapped, by_public=public, seed=self._me.seed, current=EpochId(epoch))
            except MissingError as error:
                raise Refused("not every key of a family came") from error

    def letter(self, letter: Letter, first: Callable[[], None] = lambda: None) -> Taken:
        """Take in what a full member wrote for others to read; raises Refused. `first`: as of `statements`."""
        store, writer = self._store, self._members().get(letter.by)
        by_full = writer is not None and writer.full
        try:
            with store.transaction():
                store.families.learn(letter.family, letter.page_key, dict(letter.epochs), letter.epoch, by_full=by_full)
        except MissingError as error:
            raise Refused("not every key of a family is in a letter") from error
        return self.statements(letter.by, Statements(session=letter.session, entries=letter.entries), first)

    # Statements

    def statements(self, peer: DeviceId, message: Statements, first: Callable[[], None] = lambda: None) -> Taken:
        """Take in statements, with whatever content came along; raises Refused, NoKeys, FullStoreError.

        `first` is called when nobody else writes any more.
        """
        known = self._members()
        signed = [self._read(message.session, entry, known) for entry in message.entries]
        payloads = {
            one.id: (entry.payload, entry.thinned)
            for one, entry in zip(signed, message.entries, strict=True)
            if one is not None and entry.payload is not None
        }
        kept = [one for one in signed if one is not None]
        store, session = self._store, message.session
        try:
            with store.transaction():
                first()
                before = self._known.of(session)
                size = sum(len(one.raw) for one in kept) + sum(map(len, message.objects))
                store.insist_on_room(size)
                brought = {name for one in kept if isinstance(one.body, CheckpointBody) for name in one.body.objects}
                for raw in message.objects:
                    if object_name(raw) in brought:
                        store.objects.put(raw)
                of = self._known.group()
                taken, now = self._keep(peer, session, kept, payloads, before)
        except BaseException:
            self._known.drop(session)
            raise
        if now is None:
            self._known.drop(session)
        else:
            self._known.keep(session, now, (taken.revision, *of))
        return taken

    def _keep(
        self,
        peer: DeviceId,
        session: SessionId,
        signed: Sequence[Signed],
        payloads: Mapping[StatementId, tuple[bytes | None, bool]],
        before: Known,
    ) -> tuple[Taken, Known | None]:
        store = self._store
        token_before, held_before = before.view.token, before.view.held
        known = before.statements  # Asked once it has grown, `before` would judge all of the session anew.
        again = [one for one in signed if one.id in known and isinstance(one.body, CheckpointBody)]
        fresh = [one for one in signed if one.id not in known]
        fresh = self._outliving.along(session, known, fresh)
        now = before.plus(lineage.fact(one, True) for one in fresh)
        refused = {one.id for one in fresh if one.id in now.view.refused}
        self._outliving.forget(session, refused)
        for one in fresh:
            if one.id in refused:
                if one.body.by == peer:
                    raise Refused("it signed what it had no right to")
                log.warning("sync: statement %s by %s is refused", one.id.hex()[:16], one.body.by.hex()[:16])
        if refused:
            fresh = [one for one in fresh if one.id not in refused]
            now = before.plus(lineage.fact(one, True) for one in fresh)
        self._insist_on_bounds(fresh, now)
        if now.view.removed:
            self._outliving.forget(session)
            return self._removed(session, fresh), None
        if not self.has_session(session) and not self._create(session, fresh):
            outlived = self._outliving.note(session, fresh, now.view)
            return Taken(session=session, revision=store.arrived.revision(session), outlived=outlived), None
        self._outliving.forget(session)
        came = []
        for one in fresh:
            if (checkpoint := self._came_whole(one, payloads.get(one.id))) is not None:
                came.append(checkpoint)
            else:
                store.statements.add(session, one.raw)
        at_once = {one.id for one in came}
        late = [one for one in signed if one.id not in refused and one.id not in at_once]
        for one in (one for one in late if one.id in payloads):
            self._await(one, payloads[one.id])
        came += self._complete(session, now.view, [one.id for one in late])
        made = [one.id for one in came if not one.thinned]
        held, let_go = now.view.held, held_before - now.view.held
        durable = [one.id for one in signed if one.id not in held | refused]
        whole = [id for id in made if id not in held]
        here_already = [*let_go, *(one.id for one in again if one.id not in held)]
        whole += [CheckpointId(id) for id in here_already if store.record(CheckpointId(id))]
        self._list(session, now.view, changed=bool(made), turns=_turns(came))
        return (
            Taken(
                session=session,
                revision=store.arrived.revision(session),
                fresh={one.id: one.body.after for one in fresh},
                durable=tuple(dict.fromkeys([*durable, *let_go])),
                whole=tuple(dict.fromkeys(whole)),
                fenced=token_before is not None and now.view.token != token_before,
                refused=len(refused),
            ),
            now,
        )

    def _list(self, session: SessionId, view: View, *, changed: bool, turns: int) -> None:
        """Show in lists what a session came to: now, or once all is taken that is taken together."""
        if self._unlisted is None:
            syncing_listing.show(self._store, session, view, changed=changed, turns=turns)
        else:
            _, changed_before, turns_before = self._unlisted.get(session, (view, False, 0))
            self._unlisted[session] = view, changed or changed_before, turns + turns_before

    def content(
        self, session: SessionId, bare: Iterable[CheckpointId], first: Callable[[], None] = lambda: None
    ) -> Taken:
        """Objects of a session came: commit those of its checkpoints without content that are whole by now."""
        store = self._store
        if not self.has_session(session):
            return Taken(session=session, revision=store.arrived.revision(session))
        with store.transaction():
            first()
            now = self._known.of(session)
            came = self._complete(session, now.view, bare)
            made = [one.id for one in came if not one.thinned]
            if came:
                syncing_listing.show(store, session, now.view, changed=bool(made), turns=_turns(came))
            revision, of = store.arrived.revision(session), self._known.group()
        self._known.keep(session, now, (revision, *of))
        return Taken(session=session, revision=revision, whole=tuple(id for id in made if id not in now.view.held))

    def wanted(
        self, session: SessionId, bare: Iterable[CheckpointId], most: int = 2 * SYNC_WANTS_MAX
    ) -> tuple[list[ObjectName], list[Sha256]]:
        """Return the objects and modules that checkpoints without content lack, in their order, up to `most`."""
        objects: dict[ObjectName, None] = {}
        modules: dict[Sha256, None] = {}
        for id in bare:
            signed = self._store.statements.get(session, id)
            checkpoint = None if signed is None else self._checkpoint(signed)
            if checkpoint is None:
                continue
            try:
                for name in self._content.missing(checkpoint):
                    objects[name] = None
            except (Unsound, MissingError):
                continue
            if (module := self._content.lacks_module(checkpoint)) is not None:
                modules[module] = None
            if len(objects) > most:
                break
        return list(objects), list(modules)

    def view(self, session: SessionId) -> View:
        """Return what is known of a session means."""
        return self._known.of(session).view

    def forget(self) -> None:
        """Who is a member changed, or somebody else wrote: read all again."""
        self._known.forget()

    # What stands behind it

    def _members(self) -> Mapping[DeviceId, Member]:
        return members(self._store, self._me)

    def has_session(self, session: SessionId) -> bool:
        """Whether a session is here."""
        try:
            self._store.session(session)
        except MissingError:
            return False
        return True

    def _read(self, session: SessionId, entry: Entry, known: Mapping[DeviceId, Member]) -> Signed | None:
        """Read one statement; None where its signer is no member here: it comes again once the group's records did."""
        signed = lineage.decode(entry.raw)
        if signed.session != session:
            raise Refused("a statement speaks of another session than the one it came for")
        member = known.get(signed.body.by)
        if member is None:
            return None
        if not lineage.verify(signed, member.public):
            raise Refused("the signature of a statement does not hold")
        return signed

    def _insist_on_bounds(self, fresh: Iterable[Signed], now: Known) -> None:
        counts: dict[DeviceId, int] = {}
        if len(now.statements) <= SYNC_STATEMENTS_MAX:
            return
        for fact in now.statements.values():
            counts[fact.by] = counts.get(fact.by, 0) + 1
        for one in fresh:
            if counts[one.body.by] > SYNC_STATEMENTS_MAX:
                raise Refused("one device signed more in one session than any session takes")

    def _create(self, session: SessionId, fresh: Sequence[Signed]) -> bool:
        """Make the session of its create record; False where that is not among `fresh`: it comes, with all, when asked.

        Raises NoKeys where the session's family is not known here.
        """
        create = next((one for one in fresh if isinstance(one.body, CreateBody)), None)
        if create is None or not isinstance(create.body, CreateBody):
            return False
        family: FamilyId = create.body.family
        if not self._store.families.holds(family):
            raise NoKeys
        self._store.create_session(session, family=family)
        return True

    def _came_whole(self, signed: Signed, said: tuple[bytes | None, bool] | None) -> Checkpoint | None:
        """Commit a checkpoint whose content is here with its statement; None if it is none, or waits for content."""
        payload, thinned = (None, True) if said is None else said
        if payload is None or thinned or not isinstance(signed.body, CheckpointBody):
            return None
        whole = as_checkpoint(signed.body, signed.raw, read_payload(payload))
        if not self._is_whole(whole):
            return None
        self._store.commit(whole)
        return whole

    def _is_whole(self, checkpoint: Checkpoint) -> bool:
        """Whether the content of a checkpoint is here, and can be read."""
        try:
            return not self._content.missing(checkpoint) and self._content.lacks_module(checkpoint) is None
        except Unsound as error:
            log.warning("sync: the content of checkpoint %s cannot be read: %s", checkpoint.id.hex()[:16], error)
        except MissingError:  # A key of its epoch has not come yet.
            pass
        return False

    def _await(self, signed: Signed, said: tuple[bytes | None, bool]) -> None:
        """Note what the content of a checkpoint is, unless it is here."""
        payload, thinned = said
        body = signed.body
        if payload is None or not isinstance(body, CheckpointBody):
            return
        store = self._store
        id = CheckpointId(signed.id)
        if store.record(id) is not None or store.arrived.awaited(id) is not None:
            return
        as_checkpoint(body, signed.raw, read_payload(payload))
        store.arrived.await_content(id, payload, thinned)

    def _checkpoint(self, signed: Signed) -> Checkpoint | None:
        """The checkpoint of a statement whose content is awaited; None while nobody said what that is."""
        awaited = self._store.arrived.awaited(CheckpointId(signed.id))
        if awaited is None or not isinstance(signed.body, CheckpointBody):
            return None
        return as_checkpoint(signed.body, signed.raw, awaited.payload, thinned=awaited.thinned)

    def _complete(self, session: SessionId, view: View, ids: Iterable[StatementId]) -> list[Checkpoint]:
        """Commit the checkpoints among `ids` whose content is here; those given up elsewhere as that, thinned."""
        store, made = self._store, list[Checkpoint]()
        for id in ids:
            signed = store.statements.get(session, id) if store.record(id) is None else None
            checkpoint = None if signed is None else self._checkpoint(signed)
            if checkpoint is None:
                continue
            if checkpoint.thinned and checkpoint.id not in view.heads:
                store.commit_thinned(checkpoint)
                store.arrived.came(checkpoint)
                made.append(checkpoint)
                continue
            whole = replace(checkpoint, thinned=False)
            if not self._is_whole(whole):
                continue
            store.commit(whole)
            store.arrived.came(whole)
            made.append(whole)
        return made

    def let_go(self, session: SessionId) -> Taken | None:
        """Let go of a session that was at work here when it was removed everywhere; None where newer work keeps it."""
        store = self._store
        with store.transaction():
            if not self.has_session(session) or not self._known.of(session).view.removed:
                return None
            taken = self._removed(session, ())
        self._known.drop(session)
        return taken

    def _removed(self, session: SessionId, fresh: Iterable[Signed]) -> Taken:
        """A person removed the session everywhere: keep the tombstones, and let go of the rest."""
        store = self._store
        stones = [one for one in fresh if isinstance(one.body, TombstoneBody)]
        for one in stones:
            store.statements.add(session, one.raw)
        if self._unlisted is not None:
            self._unlisted.pop(session, None)
        if self.has_session(session):
            try:
                with store.advance(session):
                    here.forget(store, session)
                    for table in TABLES:
                        store.rows.delete(table, b"", session)
                    store.remove_session(session, (findings.TABLE,))
            except BusyError:
                log.info("sync: session %s was removed elsewhere, and runs here", session.hex()[:16])
        return Taken(
            session=session,
            revision=store.arrived.revision(session),
            fresh={one.id: one.body.after for one in stones},
            durable=tuple(one.id for one in stones),
            removed=True,
            fenced=True,
        )


def _turns(came: Iterable[Checkpoint]) -> int:
    """How many turns ended with these."""
    return sum(one.turn for one in came if one.parents)
