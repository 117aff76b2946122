"""What a device does next for a session: what it owes, then what is wanted (`protocol/spec/holding.md`)."""

from __future__ import annotations

from collections.abc import Mapping

from hhd_protocol.holding.drafts import (
    CheckpointDraft,
    Done,
    IntentDraft,
    Output,
    Persist,
    ReceiptDraft,
    RecordDraft,
    Refuse,
    Run,
    Send,
    Stop,
)
from hhd_protocol.holding.part import Part
from hhd_protocol.holding.refusals import Refusal, Why
from hhd_protocol.holding.wishes import Append, GoOnFrom, Release, Settle, Start, TakeOver, Wish, Word
from hhd_protocol.ids import DeviceId, EffectId, Sha256, StatementId, TransferId
from hhd_protocol.statements import Progress, Receipt, RecordKind


def decide(part: Part, wish: Wish | None, now_ms: int) -> list[Output]:
    """What to do next: what the device owes comes first, then its person's wish. Empty: nothing."""
    if part.fenced and part.leg is not None and part.leg.running is not None:
        return [Stop(effect=part.leg.running)]
    owed = _receipt(part) or part.closing()
    if owed is not None:
        return [Persist(draft=owed), Send()]
    match wish:
        case None:
            return []
        case Append(effects=effects):
            return _append(part, effects)
        case Settle(effect=effect, word=word):
            return _settle(part, effect, word)
        case Start(effect=effect, request=request):
            return _start(part, effect, request, now_ms)
        case Release(to=to, transfer=transfer):
            return _release(part, to, transfer, now_ms)
        case TakeOver(head=head, reason=reason):
            return _take_over(part, head, reason)
        case GoOnFrom(head=head, reason=reason):
            refusal = part.may_append()
            if part.known.view.main == head and (refusal is None or refusal.why is Why.STALE):
                return [Done()]
            return _take_over(part, head, reason)


def _receipt(part: Part) -> ReceiptDraft | None:
    """The receipt that a fenced device writes of a reply that came late: evidence for who settles the effect."""
    leg = part.leg
    if leg is None or leg.replied is None or not part.fenced:
        return None
    effect, reply = leg.replied
    for s in part.known.statements.values():
        if isinstance(s, Receipt) and s.by == part.me and s.effect == effect and s.token == leg.token:
            return None
    return ReceiptDraft(effect=effect, token=leg.token, reply=reply, after=part.after)


def _append(part: Part, effects: Mapping[EffectId, Progress]) -> list[Output]:
    refusal = part.may_append()
    if refusal is not None:
        return [Refuse(refusal=refusal)]
    return [Persist(draft=_next(part, effects)), Send(), Done()]


def _next(part: Part, effects: Mapping[EffectId, Progress]) -> CheckpointDraft:
    view = part.known.view
    assert view.token is not None
    parents = () if view.main is None else (view.main,)
    return CheckpointDraft(token=view.token.id, parents=parents, after=part.after, effects=effects)


def _settle(part: Part, effect: EffectId, word: Word) -> list[Output]:
    refusal = part.may_append()
    said = part.known.progress(part.known.view.main).get(effect)
    if refusal is None and (said in (Progress.ANSWERED, Progress.SETTLED) or part.replied_to(effect)):
        refusal = Refusal(why=Why.ANSWERED)
    if refusal is None and part.leg is not None and part.leg.running == effect:
        refusal = Refusal(why=Why.RUNNING)
    if refusal is not None:
        return [Refuse(refusal=refusal)]
    # "It did not run" and "again" both ask for it anew: what differs is what the journal shows of the person's word.
    said = Progress.SETTLED if word is Word.RAN else Progress.RERUN
    return [Persist(draft=_next(part, {effect: said})), Send(), Done()]


def _start(part: Part, effect: EffectId, request: Sha256, now_ms: int) -> list[Output]:
    refusal = part.may_start(effect, request, now_ms)
    if refusal is not None:
        return [Refuse(refusal=refusal)]
    token = part.known.view.token
    assert token is not None
    draft = IntentDraft(effect=effect, token=token.id, request=request, after=part.after)
    return [Persist(draft=draft), Send(), Run(effect=effect), Done()]


def _release(part: Part, to: DeviceId, transfer: TransferId, now_ms: int) -> list[Output]:
    refusal = part.may_release(to, now_ms)
    if refusal is not None:
        return [Refuse(refusal=refusal)]
    view = part.known.view
    assert view.token is not None
    begun = {
        effect: Progress.STARTED
        for effect, said in part.known.progress(view.main).items()
        if said in (Progress.ASKED, Progress.RERUN) and part.begun(effect, view.token.id)
    }
    if begun:
        # A release proves "not started". So what was started and has no answer is on the line before it is signed.
        return [Persist(draft=_next(part, begun)), Send()]
    draft = RecordDraft(
        kind=RecordKind.RELEASE,
        to=to,
        prev=view.token.id,
        number=view.token.number + 1,
        head=view.main,
        after=part.after,
        transfer=transfer,
    )
    return [Persist(draft=draft), Send(), Done()]


def _take_over(part: Part, head: StatementId | None, reason: str) -> list[Output]:
    refusal, before = part.may_take_over(head), part.highest()
    if refusal is not None or before is None:
        return [Refuse(refusal=refusal or Refusal(why=Why.NO_RECORD))]
    draft = RecordDraft(
        kind=RecordKind.TAKEOVER,
        to=part.me,
        prev=before.id,
        number=before.number + 1,
        head=part.known.view.main if head is None else head,
        after=part.after,
        reason=reason,
    )
    return [Persist(draft=draft), Send(), Done()]
