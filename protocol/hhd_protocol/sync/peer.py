"""What one device knows of another one that it is linked to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from hhd_protocol.ids import CheckpointId, DeviceId, Incarnation, SessionId, StatementId
from hhd_protocol.limits import SYNC_BARE_MAX
from hhd_protocol.sync.budget import Budget
from hhd_protocol.sync.events import Output, SendStatements
from hhd_protocol.sync.messages import VERSION_BARE
from hhd_protocol.sync.wants import NO_SESSION


@dataclass(kw_only=True)
class Peer:
    """What is known of one linked peer; gone with the link.

    `level`: it said what it has, and `apart` are the sessions that it has otherwise and did not ask for yet; `missed`
    those of them that came to be so since it was told which they are: it will not ask for them in this round. `grew`:
    what was added while it was not level. `sent`: statements that went over and were not acknowledged. `bare`:
    checkpoints of which it has no content yet, as far as is known, and `along` those of them whose content went with
    them. `waiting`: what is done when a session is loaded.
    `differs`: it said in the round that it was asked last that it has not the same, and `since` are the sessions that
    came to be otherwise here after it was asked. `asking`: the number of the round that it asks. `given`: how often
    each object that is here was asked for. `unbacked`: statements it gave since it last gave content. `version`: what
    its hello says, 0 before that.
    `lacks`: what it said that it has no content of, with `NO_SESSION` where that is not all; `named`: the sessions of
    that since its last hello, and `told` how many checkpoints. `said`: it has said so of all, on this link.
    """

    id: DeviceId
    left_out: frozenset[SessionId]
    sealed: bool = False
    incarnation: Incarnation | None = None
    version: int = 0
    round: int = 0
    answered: int = -1
    differs: bool = False
    since: set[SessionId] = field(default_factory=set)
    asking: int = -1
    holding: dict[SessionId | None, str] = field(default_factory=dict)
    level: bool = False
    apart: set[SessionId] = field(default_factory=set)
    missed: set[SessionId] = field(default_factory=set)
    grew: dict[SessionId, list[StatementId]] = field(default_factory=dict)
    sent: dict[SessionId, set[StatementId]] = field(default_factory=dict)
    bare: dict[SessionId, set[CheckpointId]] = field(default_factory=dict)
    along: dict[SessionId, set[CheckpointId]] = field(default_factory=dict)
    waiting: list[tuple[SessionId | None, Callable[[], list[Output]]]] = field(default_factory=list)
    given: dict[bytes, int] = field(default_factory=dict)
    unbacked: int = 0
    budget: Budget = field(default_factory=Budget)
    asked_ms: int = 0
    lacks: dict[SessionId, set[CheckpointId]] = field(default_factory=dict)
    named: set[SessionId] = field(default_factory=set)
    told: int = 0
    said: bool = False

    def is_bare(self, session: SessionId, checkpoints: Collection[CheckpointId], *, here: bool) -> None:
        """It said that it has no content of these; `here`: the session is here, else nothing is to be known of it."""
        self.told += len(checkpoints)
        if self.told > SYNC_BARE_MAX or session == NO_SESSION:
            session, checkpoints, here = NO_SESSION, (), True
        if here:
            self.lacks[session] = set(checkpoints)
            self.named.add(session)

    def hello(self, version: int) -> None:
        """It begins a round; what it did not name again since the last one, it has by now, or never will."""
        self.version, self.told = version, 0
        self.lacks = {session: lacks for session, lacks in self.lacks.items() if session in self.named}
        self.named.clear()

    def answers(self) -> None:
        """It answers a round; before its first answer on a link it said what it lacks, as it does before each hello."""
        if not self.said:
            self.said = True
            self.named.clear()

    @property
    def is_known(self) -> bool:
        """Whether what it has is known, content and all, as far as one like it says that."""
        return not self.says or (self.said and NO_SESSION not in self.lacks)

    @property
    def says(self) -> bool:
        """Whether it is one that says of which checkpoints it has no content."""
        return self.version >= VERSION_BARE and not self.sealed

    def has(self, session: SessionId) -> bool:
        """Whether it said that all that is here of a session is durable there."""
        if not self.level or session in self.left_out or session in self.apart:
            return False
        if self.sealed:
            return not self.apart  # Of names, not of sessions: which of them a session needs is not known here.
        return not self.sent.get(session) and not self.bare.get(session)

    def keeps_up(self, session: SessionId) -> bool:
        """Whether it has the content of all that it was told of a session, or that is on the way in order."""
        return self.bare.get(session, set()) <= self.along.get(session, set())

    def takes(self, session: SessionId) -> bool:
        """Whether it takes the content of a session now."""
        return None not in self.holding and session not in self.holding

    def send(self, session: SessionId, ids: Iterable[StatementId], *, eager: bool = False) -> list[Output]:
        """Return what sends it these statements of a session; they count as under way from now on."""
        sending = tuple(ids)
        if not sending:
            return []
        self.sent.setdefault(session, set()).update(sending)
        return [SendStatements(peer=self.id, session=session, ids=sending, eager=eager)]

    def forget(self, session: SessionId) -> None:
        """What was under way of a session is no more: it is gone from this device."""
        for known in (self.grew, self.sent, self.bare, self.along, self.lacks):
            known.pop(session, None)
        self.missed.discard(session)

    def acknowledged(
        self, session: SessionId, statements: Iterable[StatementId], whole: Iterable[CheckpointId]
    ) -> None:
        """Note that it has these durably, of `whole` the content too."""
        if (sent := self.sent.get(session)) is not None:
            sent.difference_update(statements)
            if not sent:
                del self.sent[session]
        if (bare := self.bare.get(session)) is not None:
            bare.difference_update(whole)
            if not bare:
                del self.bare[session]
        if (lacks := self.lacks.get(session)) is not None:
            lacks.difference_update(whole)
            if not lacks:
                del self.lacks[session]
        if (along := self.along.get(session)) is not None:
            along.difference_update(whole)
            if not along:
                del self.along[session]
