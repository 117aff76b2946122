"""One device's part in one handoff: what happens goes in, what is to be done comes out, in order.

A `Handoff` is a value. `handle` looks the step up in the table (`hhd_protocol.handoff.stages`) and returns the handoff
after it with the outputs. Who carries them out stops at the first that fails, begins again from the journal
(`recovered`) and says what failed. Between any two outputs the process may die. A `Persist` that follows upon what a
happening brought (the release, signed or received) is one transaction with it.

Rejected: stages that each have a class. The table would be spread over ten files, and no test could walk it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from hhd_protocol.handoff.journal import Record
from hhd_protocol.handoff.messages import (
    Abort,
    Admit,
    Already,
    AnyMessage,
    Ask,
    Closed,
    LoadedThere,
    Offer,
    Prepare,
    RefuseOffer,
    ReleaseTo,
    Superseded,
    Took,
)
from hhd_protocol.handoff.stages import OVER, PENDING, Act, Happening, Side, Stage, row_for
from hhd_protocol.ids import CheckpointId, DeviceId, SessionId, TransferId
from hhd_protocol.limits import HANDOFF_NEAR_MS, HANDOFF_ROUNDS_MAX, HANDOFF_TEXT_BYTES_MAX


@dataclass(frozen=True, kw_only=True)
class Grant:
    """A signed release, taken apart. `raw`: its bytes; the signature was found to hold."""

    raw: bytes
    by: DeviceId
    to: DeviceId
    session: SessionId
    transfer: TransferId | None
    head: CheckpointId | None


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that happened, with what it brought.

    `head`: of PAUSED, DELIVERED, LOADED, PREPARE, LOADED_THERE. `grant`: of SIGNED, RELEASE, TOOK, ALREADY. `why`,
    `way`: of what ends it, and of UNFIT. `where`, `notes`: of FIT. `at_ms`: wall clock, for showing.
    """

    what: Happening
    head: CheckpointId | None = None
    grant: Grant | None = None
    why: str = ""
    way: str = ""
    where: str = ""
    notes: tuple[str, ...] = ()
    at_ms: int = 0


@dataclass(frozen=True, kw_only=True)
class Handoff:
    """One handoff on one device.

    `record`: the last of the journal, or, in stage NONE, what the first would be made of. `me`: this device. `offer`:
    at the source, what it says of the session. `head`: the checkpoint that is handed on, from the pause on. `rounds`:
    of staging so far.
    """

    me: DeviceId
    record: Record
    offer: Offer | None = None
    head: CheckpointId | None = None
    rounds: int = 0

    @property
    def stage(self) -> Stage:
        """How far it came."""
        return self.record.stage

    @property
    def side(self) -> Side:
        """Which of the two devices this is."""
        return self.record.side

    @property
    def over(self) -> bool:
        """Whether nothing is owed any more."""
        return self.stage in OVER

    @property
    def may_be_given_up(self) -> bool:
        """Whether it can still be undone from here."""
        return self.side is Side.SOURCE and self.stage in PENDING


def wished(
    *,
    me: DeviceId,
    peer: DeviceId,
    offer: Offer,
    cancel_running: bool = False,
    deadline_ms: int = 0,
) -> Handoff:
    """A handoff that a person at the source wants; give it WISHED."""
    record = Record(
        side=Side.SOURCE,
        stage=Stage.NONE,
        transfer=offer.transfer,
        session=offer.session,
        peer=peer,
        token=offer.token,
        cancel_running=cancel_running,
        deadline_ms=deadline_ms,
    )
    return Handoff(me=me, record=record, offer=offer)


def unknown(*, me: DeviceId, side: Side, peer: DeviceId, transfer: TransferId, session: SessionId) -> Handoff:
    """A handoff that this device has no record of, and the other speaks of."""
    return Handoff(me=me, record=Record(side=side, stage=Stage.NONE, transfer=transfer, session=session, peer=peer))


def recovered(record: Record, *, me: DeviceId, offer: Offer | None = None) -> Handoff:
    """The handoff whose journal ends in `record` (`journal.recover`); give it DUE, and it goes on.

    `offer`: at the source, made anew: it is said again as long as nobody answered.
    """
    return Handoff(me=me, record=record, offer=offer, head=record.head)


def side_of(message: AnyMessage) -> Side:
    """At which side a message arrives."""
    from_source = (Offer, Prepare, ReleaseTo, Closed, Already)
    if isinstance(message, from_source):
        return Side.TARGET
    assert isinstance(message, Admit | RefuseOffer | LoadedThere | Took | Ask), "abort and superseded go both ways"
    return Side.SOURCE


def event_of(message: AnyMessage, *, grant: Grant | None = None, at_ms: int = 0) -> Event:
    """What the arrival of `message` is; `grant`: the release in it, where its signature held."""
    return Event(
        what=message.is_about,
        head=message.head if isinstance(message, Prepare | LoadedThere) else None,
        grant=grant,
        why=message.why if isinstance(message, Abort | RefuseOffer) else "",
        way=message.way if isinstance(message, RefuseOffer) else "",
        where=message.where if isinstance(message, Admit) else "",
        notes=message.notes if isinstance(message, Admit) else (),
        at_ms=at_ms,
    )


def round_over(handoff: Handoff, *, took_ms: int, head: CheckpointId, at_ms: int = 0) -> Event:
    """What it means that a round of staging is over, which began `took_ms` ago and brought all up to `head`."""
    if handoff.head is not None:
        return Event(what=Happening.DELIVERED, head=head, at_ms=at_ms)
    near = took_ms <= HANDOFF_NEAR_MS or handoff.rounds + 1 >= HANDOFF_ROUNDS_MAX
    return Event(what=Happening.NEAR if near else Happening.ROUND, head=head, at_ms=at_ms)


@dataclass(frozen=True, kw_only=True)
class Persist:
    """Make the record durable, in one transaction with what the happening brought."""

    record: Record


@dataclass(frozen=True, kw_only=True)
class Send:
    """Give the message to the other device, if there is a link; nobody waits for it."""

    message: AnyMessage


@dataclass(frozen=True, kw_only=True)
class Do:
    """Do what the act says. `head`: of STAGE (None: up to now), LOAD and SIGN. `why`: of TELL."""

    act: Act
    head: CheckpointId | None = None
    why: str = ""


Output = Persist | Send | Do


def handle(handoff: Handoff, event: Event) -> tuple[Handoff, list[Output]]:
    """Return the handoff after `event`, and what is to be done for it, in order."""
    row = row_for(handoff.side, handoff.stage, event.what)
    if row is None or not _holds(handoff, event):
        return handoff, []
    after = _after(handoff, event, row.to)
    does = [act for act in row.does if act is not Act.OFFER or after.offer is not None]
    return after, [_output(act, after, event) for act in does]


def _holds(handoff: Handoff, event: Event) -> bool:
    """Whether what the event brought belongs to this handoff."""
    grant = event.grant
    match event.what:
        case Happening.RELEASE | Happening.ALREADY:
            return _bound(grant, handoff, by=handoff.record.peer, to=handoff.me)
        case Happening.TOOK | Happening.SIGNED:
            return _bound(grant, handoff, by=handoff.me, to=handoff.record.peer)
        case Happening.DELIVERED | Happening.LOADED_THERE if handoff.side is Side.SOURCE:
            return handoff.stage not in PENDING or (event.head is not None and event.head == handoff.head)
        case Happening.LOADED:
            return event.head is not None and event.head == handoff.head
        case Happening.PAUSED | Happening.PREPARE:
            return event.head is not None
    return True


def _bound(grant: Grant | None, handoff: Handoff, *, by: DeviceId, to: DeviceId) -> bool:
    """Whether `grant` is the release of this handoff, from the one device to the other and to no third one."""
    record = handoff.record
    return (
        grant is not None
        and grant.to == to
        and grant.by == by
        and (grant.session, grant.transfer) == (record.session, record.transfer)
    )


def _after(handoff: Handoff, event: Event, to: Stage | None) -> Handoff:
    head, rounds = handoff.head, handoff.rounds
    match event.what:
        case Happening.PAUSED | Happening.PREPARE:
            head = event.head
        case Happening.ROUND:
            rounds += 1
        case Happening.DUE if handoff.side is Side.SOURCE and handoff.stage in PENDING:
            head = None  # The session may have been let go meanwhile: it is paused and staged anew.
        case Happening.RELEASE | Happening.TOOK | Happening.SIGNED | Happening.ALREADY if event.grant is not None:
            head = event.grant.head
    record = handoff.record
    if to is not None:
        record = replace(
            record,
            stage=to,
            head=head if to in _WITH_HEAD else record.head,
            release=event.grant.raw if event.grant is not None else record.release,
            denied=record.denied or event.what is Happening.ALREADY,
            why=bounded(event.why) or record.why,
            at_ms=event.at_ms,
        )
    return replace(handoff, record=record, head=head, rounds=rounds)


_WITH_HEAD = frozenset((Stage.READY, Stage.RELEASED, Stage.TAKEN, Stage.ACKNOWLEDGED))


def _output(act: Act, after: Handoff, event: Event) -> Output:
    record = after.record
    about = _About(transfer=record.transfer, session=record.session)
    match act:
        case Act.PERSIST:
            return Persist(record=record)
        case Act.OFFER:
            assert after.offer is not None
            return Send(message=after.offer)
        case Act.ADMIT:
            return about.admit(event.where, event.notes)
        case Act.REFUSE:
            return about.refuse(bounded(event.why), bounded(event.way))
        case Act.PREPARE:
            return about.prepare(after.head)
        case Act.LOADED_THERE:
            return about.loaded(after.head)
        case Act.RELEASE | Act.TOOK | Act.ALREADY:
            return about.statement(act, record.release)
        case Act.CLOSED:
            return Send(message=Closed(transfer=record.transfer, session=record.session))
        case Act.ASK:
            return Send(message=Ask(transfer=record.transfer, session=record.session))
        case Act.ABORT:
            return Send(message=Abort(transfer=record.transfer, session=record.session, why=bounded(record.why)))
        case Act.SUPERSEDED:
            return Send(message=Superseded(transfer=record.transfer, session=record.session))
    return Do(act=act, head=after.head, why=record.why or event.why)


@dataclass(frozen=True, kw_only=True)
class _About:
    """Makes messages of one handoff."""

    transfer: TransferId
    session: SessionId

    def admit(self, where: str, notes: tuple[str, ...]) -> Send:
        return Send(
            message=Admit(
                transfer=self.transfer, session=self.session, where=bounded(where), notes=tuple(map(bounded, notes))
            )
        )

    def refuse(self, why: str, way: str) -> Send:
        return Send(message=RefuseOffer(transfer=self.transfer, session=self.session, why=why, way=way))

    def prepare(self, head: CheckpointId | None) -> Send:
        assert head is not None
        return Send(message=Prepare(transfer=self.transfer, session=self.session, head=head))

    def loaded(self, head: CheckpointId | None) -> Send:
        assert head is not None
        return Send(message=LoadedThere(transfer=self.transfer, session=self.session, head=head))

    def statement(self, act: Act, raw: bytes | None) -> Send:
        assert raw is not None, "a release is kept from the moment that it is signed or taken"
        kinds: dict[Act, type[ReleaseTo | Took | Already]] = {
            Act.RELEASE: ReleaseTo,
            Act.TOOK: Took,
            Act.ALREADY: Already,
        }
        return Send(message=kinds[act](transfer=self.transfer, session=self.session, statement=raw))


def bounded(text: str) -> str:
    """`text`, cut to what a message or a record takes; lone surrogates, as names of files may have, are "?"."""
    return text.encode(errors="replace")[:HANDOFF_TEXT_BYTES_MAX].decode(errors="ignore")
