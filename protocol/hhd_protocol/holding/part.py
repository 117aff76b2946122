"""One device's part in one session: the facts, how things stand, and the doors (`protocol/spec/holding.md`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from hhd_protocol.holding.drafts import CheckpointDraft
from hhd_protocol.holding.known import Known
from hhd_protocol.holding.refusals import Refusal, Why
from hhd_protocol.ids import DeviceId, EffectId, Sha256, StatementId
from hhd_protocol.limits import SUSPENDED_MS_MAX, WAKE_WAIT_MS_MAX
from hhd_protocol.statements import (
    Checkpoint,
    EffectKind,
    Fact,
    Intent,
    Progress,
    Receipt,
    Record,
    RecordKind,
    Role,
    Statement,
)

_NOTHING: Mapping[EffectId, Progress] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class Leg:
    """What is, or was last, advanced here: the token, and the last own checkpoint or the head it began from.

    `unsaved`: there is work that no checkpoint holds. `running`: the effect that is under way. `replied`: the SHA-256
    of a reply that came and is in no checkpoint, with its effect.
    """

    token: StatementId
    head: StatementId | None
    unsaved: bool = False
    running: EffectId | None = None
    replied: tuple[EffectId, Sha256] | None = None


@dataclass(frozen=True, kw_only=True)
class Around:
    """How things stand now; none of it is kept on disk.

    `woke_ms`: when this process started, or the device last woke, by a clock that counts sleep. `connected`: full
    members with a link now. `answered`: those that have sent, since then, all they know of the session. `attached`: a
    person is attached, or prompted here, since then.
    """

    woke_ms: int
    connected: frozenset[DeviceId] = frozenset()
    answered: frozenset[DeviceId] = frozenset()
    attached: bool = False


@dataclass(frozen=True, kw_only=True)
class Clocks:
    """Milliseconds of two clocks: `boot_ms` counts sleep (CLOCK_BOOTTIME), `awake_ms` does not (CLOCK_MONOTONIC)."""

    boot_ms: int
    awake_ms: int

    def slept_since(self, before: Clocks) -> bool:
        """Whether the device was suspended since `before` for so long that others may have taken over."""
        return (self.boot_ms - before.boot_ms) - (self.awake_ms - before.awake_ms) > SUSPENDED_MS_MAX


@dataclass(frozen=True, kw_only=True)
class Part:
    """One device's part in one session.

    `tip`: the last statement that *this store* signed, None before the first; own statements that it does not lead
    to came from elsewhere. `acknowledged_by`: members that said a checkpoint of this session is durable there.
    `denied`: tokens that, as a peer showed, this device held before its store was rolled back ("already taken"); kept
    on disk. `leg`: None when nothing is, or was, advanced here. `bare`: checkpoints of which only the record is here:
    nothing can stand on them here.
    """

    me: DeviceId
    known: Known
    tip: StatementId | None
    around: Around
    acknowledged_by: frozenset[DeviceId] = frozenset()
    denied: frozenset[StatementId] = frozenset()
    leg: Leg | None = None
    bare: frozenset[StatementId] = frozenset()

    def learned(self, *statements: Fact) -> Part:
        """The part that also knows `statements`, whoever sent them; itself when they are known."""
        known = self.known.plus(statements)
        return self if known is self.known else replace(self, known=known)

    def signed(self, statement: Fact) -> Part:
        """The part after this store signed `statement` and made it durable."""
        leg = self.leg
        if isinstance(statement, Checkpoint):
            if not statement.closing:
                leg = Leg(token=statement.token, head=statement.id, running=leg.running if leg else None)
            elif leg is not None and leg.token == statement.token:
                leg = None
        elif isinstance(statement, Record) and not (leg is not None and (leg.unsaved or leg.replied is not None)):
            # A leg with work that is in no checkpoint stays, fenced from now on, until its closing checkpoint.
            leg = Leg(token=statement.id, head=statement.head) if statement.to == self.me else None
        elif isinstance(statement, Intent):
            leg = replace(leg or Leg(token=statement.token, head=self.known.view.main), running=statement.effect)
        return replace(self.learned(statement), tip=statement.id, leg=leg)

    def loaded(self) -> Part:
        """The part that goes on, in memory, from the owner's tip; only where `may_append` says nothing but stale."""
        view = self.known.view
        return replace(self, leg=Leg(token=view.token.id, head=view.main) if view.token else None)

    # The doors

    def may_append(self) -> Refusal | None:
        """Door 1: may this device append to the journal or store an own checkpoint? None: it may."""
        view = self.known.view
        refusal = self._may_hold()
        if refusal is not None:
            return refusal
        if view.token is None:
            return Refusal(why=Why.OWNER_REVOKED)
        if view.owner != self.me:
            return Refusal(why=Why.OWNER_REVOKED if view.owner_revoked else Why.NOT_OWNER)
        if self._rolled_back(view.token.id):
            return Refusal(why=Why.ADDED_AGAIN if self.me in view.anew else Why.ROLLED_BACK)
        refusal = self._no_tip()
        if refusal is not None:
            return refusal
        if self.leg is not None and (self.leg.token, self.leg.head) != (view.token.id, view.main):
            return Refusal(why=Why.STALE)
        return None

    def may_start(
        self, effect: EffectId, request: Sha256, now_ms: int, saying: Mapping[EffectId, Progress] = _NOTHING
    ) -> Refusal | None:
        """Door 2: may this device start `effect`, whose request has the SHA-256 `request`? None: it may.

        `saying`: what the checkpoint says that is written just before the start.
        """
        refusal = self.may_append()
        if refusal is not None:
            return refusal
        if self.leg is not None and self.leg.running is not None:
            return Refusal(why=Why.RUNNING)
        if self.replied_to(effect):
            return Refusal(why=Why.ANSWERED)
        view = self.known.view
        assert view.token is not None
        said = saying.get(effect) or self.known.progress(view.main).get(effect)
        if said is None:
            return Refusal(why=Why.NOT_ASKED)
        if said in (Progress.ANSWERED, Progress.SETTLED):
            return Refusal(why=Why.ANSWERED)
        begun = effect not in saying and self.begun(effect, view.token.id)
        doubtful = said is Progress.STARTED or begun or self.known.is_uncertain(effect, saying)
        if doubtful and self.known.kinds.get(effect, EffectKind.TOOL) is EffectKind.TOOL:
            return Refusal(why=self._which_doubt(effect, request))
        return self._waits(now_ms)

    def may_release(self, to: DeviceId, now_ms: int) -> Refusal | None:
        """May this device sign a release to `to`? None: it may."""
        refusal = self.may_append()
        if refusal is not None:
            return refusal
        view = self.known.view
        if to == self.me or self.known.members.get(to) is not Role.FULL or to in view.revoked:
            return Refusal(why=Why.NO_TARGET)
        if self.leg is not None and self.leg.running is not None:
            return Refusal(why=Why.RUNNING)
        if self.leg is not None and (self.leg.unsaved or self.leg.replied is not None):
            return Refusal(why=Why.UNSAVED)
        return self._waits(now_ms)

    def may_take_over(self, head: StatementId | None) -> Refusal | None:
        """May this device take the session over and go on from `head` (None: the owner's tip)? None: it may."""
        refusal = self._may_hold()
        if refusal is not None:
            return refusal
        view = self.known.view
        if self.leg is not None and self.leg.running is not None:
            return Refusal(why=Why.RUNNING)
        if head is None:
            return self._no_tip()
        known = isinstance(self.known.statements.get(head), Checkpoint)
        return None if known and head not in view.held | view.refused | self.bare else Refusal(why=Why.HEAD_NOT_HERE)

    def replied_to(self, effect: EffectId) -> bool:
        """Whether its reply is here, in no checkpoint yet."""
        return self.leg is not None and self.leg.replied is not None and self.leg.replied[0] == effect

    @property
    def fenced(self) -> bool:
        """Whether the leg's token is beaten, or this device was revoked: nothing starts any more, and it closes."""
        view = self.known.view
        return self.leg is not None and (
            self.me in view.revoked or view.token is None or view.token.id != self.leg.token
        )

    def closing(self) -> CheckpointDraft | None:
        """The next closing checkpoint that this device owes; None if it owes none.

        One is owed for each token that this device had and lost otherwise than by its own release, also for one that
        it never used, where the token's line has an effect that another line may wait for (only who had the token can
        say "not started"), or where there is work here that is in no checkpoint. Of what it does not name, its line
        speaks. Where all that it could say is "started", the intent has said it. Where the session was removed, only
        work that is in no checkpoint is a reason.
        """
        for token in self._lost_tokens():
            at_leg = self.leg if self.leg is not None and self.leg.token == token.id else None
            if at_leg is not None and at_leg.running is not None:
                continue
            head = self._own_tip(token) if at_leg is None else at_leg.head
            if head is not None and (head not in self.known.statements or head in self.bare):
                continue
            if self.known.view.removed and not (at_leg is not None and (at_leg.unsaved or at_leg.replied)):
                continue  # It would be newer than the removal, and bring back what a person removed.
            line = self.known.progress(head)
            journal = self._journal(token.id, line, at_leg)
            news = any(said is not Progress.STARTED for said in journal.values())
            if news or (at_leg is not None and at_leg.unsaved):
                return CheckpointDraft(
                    token=token.id,
                    parents=() if head is None else (head,),
                    after=self.after,
                    effects={effect: said for effect, said in journal.items() if line.get(effect) is not said},
                    closing=True,
                    journal=journal,
                )
        return None

    def deadline(self) -> int | None:
        """When `decide` may answer differently although nothing else happened, in ms, past or not; None: never."""
        return self.around.woke_ms + WAKE_WAIT_MS_MAX if self._asks_others() else None

    # What stands behind the doors

    def _may_hold(self) -> Refusal | None:
        view = self.known.view
        if self.highest() is None:
            return Refusal(why=Why.NO_RECORD)
        if view.removed:
            return Refusal(why=Why.REMOVED)
        if self.known.members.get(self.me) is not Role.FULL:
            return Refusal(why=Why.NOT_FULL)
        return Refusal(why=Why.REVOKED) if self.me in view.revoked else None

    def highest(self) -> Record | None:
        """The record that a takeover follows: the winner or, where revocations sealed all, the highest of those."""
        view = self.known.view
        out = view.held | view.refused
        records = [record for record in self.known.records if record.id not in out]
        if view.token is not None:
            records = [record for record in records if record.id == view.token.id]
        return max(records, key=lambda record: (record.number, record.id), default=None)

    def _no_tip(self) -> Refusal | None:
        """Why there is no tip to go on from; None where there is one, or where the first checkpoint is to come."""
        view = self.known.view
        record = self.highest()
        assert record is not None
        if view.main is not None:
            return Refusal(why=Why.HEAD_NOT_HERE) if view.main in self.bare else None
        if record.head is not None and (
            record.head not in self.known.statements or record.head in view.held | view.refused
        ):
            return Refusal(why=Why.HEAD_NOT_HERE)
        made = any(isinstance(s, Checkpoint) and s.token == record.id for s in self.known.statements.values())
        return None if record.head is None and not made else Refusal(why=Why.SPLIT)

    def _rolled_back(self, token: StatementId) -> bool:
        """Whether something shows that this device had `token` before its store was rolled back, or it was revoked."""
        if token in self.denied:
            return True
        return any(token in (s.id, _token_of(s)) for s in self.known.strays(self.me, self._chain_tip))

    @property
    def _chain_tip(self) -> StatementId | None:
        """The tip, if it is in the chain that counts: that of a device that was added again begins anew."""
        anew = self.known.view.anew.get(self.me)
        return self.tip if not anew or self.known.line(self.tip).missing in anew else None

    @property
    def after(self) -> StatementId | None:
        """What this device's next statement follows: its last one known, so that a roll-back leaves one chain.

        From the tip on, own statements that came from elsewhere are followed while there is one choice. Where this
        device was revoked and added again, its chain begins anew at that membership.
        """
        at = self._chain_tip
        if at is None and (anew := self.known.view.anew.get(self.me)):
            at = min(anew)
        while len(next_ones := self.known.followers(self.me, at)) == 1:
            at = next_ones[0]
        return at

    def begun(self, effect: EffectId, token: StatementId) -> bool:
        """Whether this store said, under `token`, that it starts `effect`, and nothing took that back since."""
        return self.known.line(self.tip).begun(effect, token)

    def _which_doubt(self, effect: EffectId, request: Sha256) -> Why:
        other = any(
            isinstance(s, Intent) and s.effect == effect and s.request != request
            for s in self.known.statements.values()
        )
        return Why.OTHER_REQUEST if other else Why.UNCERTAIN

    def _others(self) -> frozenset[DeviceId]:
        full = {device for device, role in self.known.members.items() if role is Role.FULL}
        return frozenset(full - {self.me} - self.known.view.revoked)

    def _asks_others(self) -> bool:
        """Whether an effect or a release has to wait for what others know; who signed here has its own share."""
        others = self._others()
        if not others & self.acknowledged_by.union(self.known.signers):
            return False
        answered = self.around.answered & others
        return not answered or bool((self.around.connected & others) - answered)

    def waits(self, now_ms: int) -> Refusal | None:
        """Why an effect, or a release, waits for what others know; None: it does not."""
        return self._waits(now_ms)

    def _waits(self, now_ms: int) -> Refusal | None:
        if not self._asks_others():
            return None
        others = self._others()
        answered = self.around.answered & others
        until_ms = self.around.woke_ms + WAKE_WAIT_MS_MAX
        if now_ms < until_ms and not (self.around.attached and not self.around.connected & others):
            return Refusal(why=Why.WAKING, until_ms=until_ms)
        return None if answered or self.around.attached else Refusal(why=Why.ALONE)

    def _lost_tokens(self) -> list[Record]:
        """The records that gave this device a token it has no more, was not released by it, and is not closed.

        A leg with work that is in no checkpoint makes its token owed in any case: where an own release or closing
        checkpoint speaks of it, that was signed before the store was rolled back, not knowing of the work.
        """
        view = self.known.view
        over: set[StatementId] = set() if self.me in view.revoked or view.token is None else {view.token.id}
        given = [s for s in self.known.records if s.to == self.me and s.id not in over | view.held | view.refused]
        if not given:
            return []
        for s in self.known.statements.values():
            if s.by == self.me and (
                (isinstance(s, Record) and s.kind is RecordKind.RELEASE and s.prev is not None)
                or (isinstance(s, Checkpoint) and s.closing)
            ):
                over.add(_token_of(s) or s.id)
        if self.leg is not None and self.leg.unsaved and self.fenced:
            over.discard(self.leg.token)
        return [record for record in given if record.id not in over]

    def _own_tip(self, token: Record) -> StatementId | None:
        """The last checkpoint of this store under `token`, or the head that the token names."""
        return self.known.line(self.tip).ends.get(token.id, token.head)

    def _journal(
        self, token: StatementId, line: Mapping[EffectId, Progress], leg: Leg | None
    ) -> dict[EffectId, Progress]:
        """What a closing checkpoint says itself: the effects that are open, or whose reply is in no checkpoint yet."""
        over = {None, Progress.ANSWERED, Progress.SETTLED}
        journal: dict[EffectId, Progress] = {
            effect: said
            for effect, said in line.items()
            if said not in over and self.known.kinds.get(effect, EffectKind.TOOL) is EffectKind.TOOL
        }
        mine = self.known.line(self.tip)
        for s in self.known.statements.values():
            # An own intent that this store does not lead to was lost in a roll-back: it may have run.
            if isinstance(s, Intent) and s.by == self.me and s.token == token:
                may_have_run = s.id not in mine.ids or self.begun(s.effect, token)
                if may_have_run and line.get(s.effect) not in over:
                    journal[s.effect] = Progress.STARTED
        if leg is not None and leg.replied is not None:
            journal[leg.replied[0]] = Progress.ANSWERED
        return journal


def _token_of(statement: Statement) -> StatementId | None:
    """The token that the statement was made under."""
    if isinstance(statement, Record):
        return statement.prev
    return statement.token if isinstance(statement, Checkpoint | Intent | Receipt) else None
