"""Everything that is here of one session's lineage: its statements, checked, and what they mean together.

A handoff asks a dozen times in a row, mostly of the same statements: what was read and judged stays at hand in the
process (`hhd.node.judged`), for as long as nothing was added to the session or to the group, by whichever process.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from hhd.node import judged
from hhd.node.judged import Read
from hhd.node.members import Member, group_of
from hhd.store.store import Store
from hhd_protocol import lineage
from hhd_protocol.bodies import CheckpointBody
from hhd_protocol.fencing import View
from hhd_protocol.heads import Kept, Lines, Tip
from hhd_protocol.holding import Known
from hhd_protocol.ids import CheckpointId, DeviceId, EffectId, SessionId, StatementId
from hhd_protocol.lineage import Signed
from hhd_protocol.statements import EffectKind, Fact, Record


@dataclass(frozen=True, kw_only=True)
class Lineage:
    """The statements of `session`, in the order they came by kind, and what those mean whose signature holds."""

    session: SessionId
    signed: tuple[Signed, ...]
    known: Known

    @property
    def view(self) -> View:
        """Owner, heads and what else follows from the whole set."""
        return self.known.view

    @cached_property
    def bodies(self) -> Mapping[CheckpointId, CheckpointBody]:
        """What is said in each checkpoint's statement."""
        return {CheckpointId(one.id): one.body for one in self.signed if isinstance(one.body, CheckpointBody)}

    @cached_property
    def tips(self) -> tuple[Tip, ...]:
        """The ends of all lines of work, the main head first, heads before what is kept and is none."""
        return Lines(self.bodies).tips(self.view)

    @property
    def heads(self) -> list[CheckpointId]:
        """The heads, the main one first."""
        return [tip.id for tip in self.tips if tip.kept is Kept.HEAD]

    def number(self, token: StatementId) -> int | None:
        """The number of the token whose record is `token`; None while that is not here."""
        record = self.known.statements.get(token)
        return record.number if isinstance(record, Record) else None


def lineage_of(
    store: Store,
    session: SessionId,
    members: Mapping[DeviceId, Member],
    *,
    kinds: Mapping[EffectId, EffectKind] | None = None,
) -> Lineage:
    """Return what is here of `session`'s lineage, each signature found to hold or not.

    `kinds`: of effects that may be done twice. Raises MissingError, DamagedStoreError.
    """
    store.session(session)
    with store.snapshot():
        of = revision(store, session)
        read = judged.read_before(store, session, of, members)
        if read is None:
            before = judged.read_any(store, session, members)
            read = judged.keep_read(store, session, of, _read(store, session, members, before))
        group = group_of(store)
    if kinds is None and (same := judged.known_before(store, session, read)) is not None:
        return Lineage(session=session, signed=read.signed, known=same)
    facts = dict(read.facts)
    if group is not None:
        facts |= {one.id: one for one in group.revocations(session)}
    roles = {device: member.role for device, member in members.items()}
    known = Known(session=StatementId(session), members=roles, statements=facts, kinds={} if kinds is None else kinds)
    if kinds is None and len(read.signed) <= judged.STATEMENTS_MAX:
        judged.keep_known(store, session, read, known)
    return Lineage(session=session, signed=read.signed, known=known)


def revision(store: Store, session: SessionId) -> tuple[object, ...]:
    """Something that changes with whatever may change what is known of a session: a statement of it that is added or
    removed, the content of a checkpoint, a record of the group. Each process sees what any other has committed."""
    return store.arrived.revision(session), store.group.root(), store.group.count()


def _read(store: Store, session: SessionId, members: Mapping[DeviceId, Member], before: Read | None) -> Read:
    """All that is listed now; of what was read `before`, by the same members, nothing is read or checked again."""
    signed = tuple(store.statements.all(session, {} if before is None else before.by_id))
    facts: dict[StatementId, Fact] = {}
    for one in signed:
        fact = None if before is None else before.facts.get(one.id)
        facts[one.id] = fact or lineage.fact(one, _holds(one, members, store.device))
    return Read(members=dict(members), signed=signed, facts=facts)


def _holds(signed: Signed, members: Mapping[DeviceId, Member], me: DeviceId) -> bool:
    """Whether the signature holds; of an unknown signer it cannot be told, so what they say is held, not refused.

    What this device signed came here by its own hand, or was checked when it came; its rows are sealed.
    """
    member = members.get(signed.body.by)
    return signed.body.by == me or member is None or _verified(signed, member.public)


_VERIFIED: OrderedDict[tuple[StatementId, bytes], bool] = OrderedDict()
_VERIFIED_MAX = 8192


def _verified(signed: Signed, public: bytes) -> bool:
    """As `lineage.verify`, once for each statement and key: the id is a digest of all of it, the signature too."""
    key = (signed.id, public)
    found = _VERIFIED.get(key)
    if found is None:
        found = _VERIFIED[key] = lineage.verify(signed, public)
        if len(_VERIFIED) > _VERIFIED_MAX:
            with contextlib.suppress(KeyError):  # Another thread may have been quicker.
                _VERIFIED.popitem(last=False)
    return found
