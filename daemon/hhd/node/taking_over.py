"""Taking a session over from a device that is gone, or never took it: what that costs is said first."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256

from hhd.base.errors import RefusedError
from hhd.identity.key import Identity
from hhd.node import bringing, files_due, foreign, here, listing, naming, turning
from hhd.node.answers.takeover import Doubt, Takeable, TakenOver
from hhd.node.devices import Devices
from hhd.node.doors import Doors
from hhd.node.handoff import journal as handoff_journal
from hhd.node.listed import Listed
from hhd.node.moment import Moment
from hhd.node.owing import judge_kinds
from hhd.node.own import UNKNOWN
from hhd.node.refused import refused, short
from hhd.store.captures import capture_ref
from hhd.store.store import Store
from hhd_protocol.bodies import CheckpointBody, IntentBody
from hhd_protocol.holding import TakeOver, Why
from hhd_protocol.ids import CheckpointId, EffectId, StatementId
from hhd_protocol.lineage import effect_id
from hhd_protocol.statements import Checkpoint, Record, RecordKind


@dataclass(frozen=True, kw_only=True)
class Taker:
    """Takes sessions of `store` over, in the name of `me`."""

    store: Store
    me: Identity
    devices: Devices

    def would(self, listed: Listed, head: CheckpointId | None) -> Takeable:
        """Say what taking the session over, to go on from `head` (None: the owner's tip), would mean.

        Raises RefusedError where this device has it already, or may not take it.
        """
        doors = Doors(self.store, self.me, listed.id)
        with self.store.snapshot():
            return self._would(doors, listed, head)

    def _would(self, doors: Doors, listed: Listed, head: CheckpointId | None) -> Takeable:
        part = doors.part
        view = part.known.view
        if view.owner == self.me.id and head in (None, view.main):
            refusal = doors.may_append()
            if refusal is None or refusal.why is Why.STALE:
                name = short(listed.id)
                raise RefusedError(f"Session {name} is this device's already; go on with it: hhd resume {name}")
        at, behind = (head, 0) if head is not None else self._newest(listed, doors)
        if (refusal := part.may_take_over(at)) is not None:
            raise refused(listed.id, refusal, view)
        if at is None:
            raise RefusedError(
                f"Session {short(listed.id)} has no checkpoint here yet, so there is nothing to go on from."
            )
        signed = self.store.statements.get(listed.id, at)
        assert signed is not None and isinstance(signed.body, CheckpointBody)
        age_ms, clock = self._age(listed, at, signed.body)
        ref = capture_ref(self.store.checkpoint(at).workspace)
        noted = here.noted(self.store, listed.id)
        stages = [one.stage.value for one in handoff_journal.unfinished(self.store) if one.session == listed.id]
        return Takeable(
            session=listed.id.hex(),
            title=listed.title,
            owner=None if view.owner is None else self.devices.shown(view.owner),
            token=0 if view.token is None else view.token.number,
            head=at.hex(),
            main=at == view.main,
            by=self.devices.shown(signed.body.by),
            age_ms=age_ms,
            clock=clock,
            behind=behind,
            heads=len(view.heads),
            doubts=tuple(self._doubts(doors, listed, at)),
            capture="" if ref is None else ref.name.hex(),
            folder="" if noted is None or noted.folder is None else str(noted.folder),
            handoff=stages[-1] if stages else "",
        )

    def _newest(self, listed: Listed, doors: Doors) -> tuple[CheckpointId | None, int]:
        """The last checkpoint on the owner's line whose content is here, and how many after it there are without."""
        known, here_ids = doors.part.known, set(self.store.checkpoint_ids(listed.id))
        at, behind = known.view.main, 0
        while at is not None and (at not in here_ids or self.store.checkpoint(CheckpointId(at)).thinned):
            fact = known.statements.get(at)
            at = fact.parents[0] if isinstance(fact, Checkpoint) and fact.parents else None
            behind += 1
        if at is not None:
            return CheckpointId(at), behind
        heads = [one for one in self.store.heads(listed.id) if not self.store.checkpoint(one).thinned]
        return (heads[-1] if heads else None), behind

    def _age(self, listed: Listed, at: CheckpointId, body: CheckpointBody) -> tuple[int, str]:
        now, came = self.store.now_ms(), self.store.came(listed.id)
        if body.by == self.me.id:
            return max(0, now - body.at_ms), "ours"
        if came is not None and came[0] == at:
            return max(0, now - came[1]), "ours"
        return max(0, now - body.at_ms), "theirs"

    def _doubts(self, doors: Doors, listed: Listed, at: CheckpointId) -> list[Doubt]:
        """The effects that may have run, once this device has taken the session over."""
        judge_kinds(self.store, doors, listed.id)
        part = doors.part
        before = part.highest()
        assert before is not None
        would = Record(
            id=StatementId(sha256(b"a takeover that is only looked at" + before.id).digest()),
            by=self.me.id,
            after=part.after,
            signature_good=True,
            kind=RecordKind.TAKEOVER,
            to=self.me.id,
            prev=before.id,
            number=before.number + 1,
            head=at,
        )
        uncertain = part.known.plus([would]).view.uncertain
        journal = Moment(self.store, at).standing.journal
        found: dict[EffectId, Doubt] = {}
        if (pending := journal.pending) is not None and (id := effect_id(listed.id, pending.index)) in uncertain:
            found[id] = Doubt(effect=pending.index, op=pending.op, text="\n".join(foreign.described(pending)))
        for signed in self.store.statements.all(listed.id):
            body = signed.body
            if isinstance(body, IntentBody) and body.position >= journal.settled:
                id = effect_id(listed.id, body.position)
                beyond = journal.pending is None or body.position > journal.pending.index
                if id not in found and (id in uncertain or beyond):
                    name = self.devices.named(body.by)
                    found[id] = Doubt(effect=body.position, op=body.op, text=f"{name} was about to run it")
        return sorted(found.values(), key=lambda one: one.effect)

    def take_over(self, listed: Listed, shown: Takeable, reason: str) -> TakenOver:
        """Take it over, as `would` said; durable when this returns.

        Raises RefusedError, with nothing changed, where something came in between; BusyError.
        """
        wanted = naming.checkpoint(self.store, listed.id, shown.head)
        now = self.would(listed, None if shown.main or shown.behind else wanted)
        if (now.token, now.head) != (shown.token, shown.head):
            raise RefusedError("The session has changed since it was shown; nothing was changed. Look at it again.")

        def taken() -> None:
            noted = here.noted(self.store, listed.id) or here.Note()
            here.note(self.store, listed.id, replace(noted, place=noted.place or UNKNOWN))
            files_due.note(self.store, listed.id)
            handoff_journal.close_beaten(self.store, self.me, listed.id)

        turning.carry_out(self.store, self.me, listed.id, TakeOver(head=wanted, reason=reason), then=taken)
        folder, instead, notes = bringing.told(self.store, self.me, listed.id)
        after = listing.get(self.store, listed.id) or listed
        return TakenOver(
            session=now.session,
            title=now.title,
            token=after.token,
            head=now.head,
            folder=folder,
            instead=instead,
            notes=notes,
            uncertain=after.state is listing.State.UNCERTAIN,
        )
