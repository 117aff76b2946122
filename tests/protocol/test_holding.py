"""One device's part in one session, as a script that reads like the spec page."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest

from hhd_protocol import holding
from hhd_protocol.holding import (
    Append,
    Around,
    CheckpointDraft,
    Clocks,
    Done,
    GoOnFrom,
    IntentDraft,
    Known,
    Part,
    Persist,
    ReceiptDraft,
    RecordDraft,
    Refuse,
    Release,
    Run,
    Send,
    Settle,
    Start,
    Stop,
    TakeOver,
    WayOut,
    Why,
    Word,
    decide,
)
from hhd_protocol.ids import DeviceId, EffectId, Sha256, StatementId, TransferId
from hhd_protocol.limits import SUSPENDED_MS_MAX, WAKE_WAIT_MS_MAX
from hhd_protocol.statements import (
    Checkpoint,
    EffectKind,
    Intent,
    Progress,
    Receipt,
    Record,
    RecordKind,
    Revocation,
    Role,
    Statement,
    Tombstone,
)

LAPTOP, DESKTOP, PHONE = DeviceId(b"laptop"), DeviceId(b"desktop"), DeviceId(b"phone")
FULL = {LAPTOP: Role.FULL, DESKTOP: Role.FULL}
E1, E2 = EffectId(b"e1"), EffectId(b"e2")
REQUEST, OTHER_REQUEST = Sha256(bytes(32)), Sha256(bytes(31) + b"1")
TRANSFER = TransferId(bytes(16))


def _sid(*parts: object) -> StatementId:
    return StatementId(sha256(repr(parts).encode()).digest())


def _create(by: DeviceId = LAPTOP) -> Record:
    return Record(
        id=_sid("create", by),
        by=by,
        after=None,
        signature_good=True,
        kind=RecordKind.CREATE,
        to=by,
        prev=None,
        number=1,
        head=None,
    )


def _sign(part: Part, draft: holding.Draft) -> Statement:
    common: dict[str, Any] = {"id": _sid(part.me, draft), "by": part.me, "after": draft.after, "signature_good": True}
    match draft:
        case RecordDraft():
            return Record(**common, kind=draft.kind, to=draft.to, prev=draft.prev, number=draft.number, head=draft.head)
        case CheckpointDraft():
            return Checkpoint(
                **common,
                token=draft.token,
                parents=draft.parents,
                effects=draft.effects,
                closing=draft.closing,
                journal=draft.journal,
            )
        case IntentDraft():
            return Intent(**common, effect=draft.effect, token=draft.token, request=draft.request)
        case ReceiptDraft():
            return Receipt(**common, effect=draft.effect, token=draft.token, reply=draft.reply)


def _part(me: DeviceId = LAPTOP, *, members: dict[DeviceId, Role] = FULL, mine: bool = True) -> Part:
    create = _create()
    known = Known(session=create.id, members=members, statements={create.id: create})
    here = mine and me == LAPTOP
    part = Part(me=me, known=known, tip=create.id if here else None, around=Around(woke_ms=0, attached=True))
    return part.loaded() if here else part


def _carry_out(part: Part, wish: holding.Wish | None, now_ms: int = 0) -> Part:
    """Decide until the wish is done; every list has its outputs in order."""
    for _ in range(5):
        outputs = decide(part, wish, now_ms)
        assert not any(isinstance(o, Refuse) for o in outputs), outputs
        order = [next(i for i, kinds in enumerate(ORDER) if isinstance(o, kinds)) for o in outputs]
        assert order == sorted(order)
        for output in outputs:
            if isinstance(output, Persist):
                part = part.signed(_sign(part, output.draft))
        if not outputs or isinstance(outputs[-1], Done):
            return part
    raise AssertionError("a wish is done in a few steps")


ORDER = (Persist, Send, Run | Stop, Done)


def _refusal(part: Part, wish: holding.Wish, now_ms: int = 0) -> Why:
    outputs = decide(part, wish, now_ms)
    assert len(outputs) == 1 and isinstance(outputs[0], Refuse), outputs
    return outputs[0].refusal.why


def _asked(part: Part, effect: EffectId = E1) -> Part:
    return _carry_out(part, Append(effects={effect: Progress.ASKED}))


def _answered(part: Part, effect: EffectId = E1) -> Part:
    assert part.leg is not None
    part = replace(part, leg=replace(part.leg, running=None, replied=(effect, Sha256(bytes(32)))))
    return _carry_out(part, Append(effects={effect: Progress.ANSWERED}))


def _shared(part: Part, other: Part) -> Part:
    return other.learned(*part.known.statements.values())


def test_an_effect_is_asked_started_and_answered_each_durable_before_the_next() -> None:
    part = _asked(_part())
    outputs = decide(part, Start(effect=E1, request=REQUEST), 0)
    assert [type(o) for o in outputs] == [Persist, Send, Run, Done]
    part = _carry_out(part, Start(effect=E1, request=REQUEST))
    assert _refusal(part, Start(effect=E1, request=REQUEST)) is Why.RUNNING
    part = _answered(part)
    assert _refusal(part, Start(effect=E1, request=REQUEST)) is Why.ANSWERED
    assert _refusal(part, Start(effect=E2, request=REQUEST)) is Why.NOT_ASKED


def test_what_was_running_when_the_process_died_is_not_run_again_by_itself() -> None:
    part = _carry_out(_asked(_part()), Start(effect=E1, request=REQUEST))
    part = part.loaded()
    assert _refusal(part, Start(effect=E1, request=REQUEST)) is Why.UNCERTAIN
    for word in (Word.DID_NOT_RUN, Word.AGAIN):
        anew = _carry_out(part, Settle(effect=E1, word=word))
        anew = _carry_out(anew, Start(effect=E1, request=REQUEST)).loaded()
        assert _refusal(anew, Start(effect=E1, request=REQUEST)) is Why.UNCERTAIN, "a word holds for one start"
    ran = _carry_out(part, Settle(effect=E1, word=Word.RAN))
    assert _refusal(ran, Start(effect=E1, request=REQUEST)) is Why.ANSWERED


def test_a_reply_that_is_here_is_an_answer() -> None:
    part = _carry_out(_asked(_part()), Start(effect=E1, request=REQUEST))
    assert part.leg is not None
    part = replace(part, leg=replace(part.leg, running=None, replied=(E1, Sha256(bytes(32)))))
    assert _refusal(part, Start(effect=E1, request=REQUEST)) is Why.ANSWERED
    assert _refusal(part, Settle(effect=E1, word=Word.AGAIN)) is Why.ANSWERED
    assert _refusal(part, Release(to=DESKTOP, transfer=TRANSFER)) is Why.UNSAVED


def test_work_in_no_checkpoint_outlives_an_own_takeover() -> None:
    part = _carry_out(_part(), Append())
    assert part.leg is not None
    part = replace(part, leg=replace(part.leg, unsaved=True))
    part = _carry_out(part, TakeOver(head=None, reason="restored"))
    assert part.fenced and part.closing() is not None
    part = _carry_out(part, None)
    assert part.leg is None and part.loaded().may_append() is None


def test_a_session_whose_creator_is_sealed_with_all_it_signed_can_be_taken_over() -> None:
    laptop = _carry_out(_part(), Append())
    word = Revocation(id=_sid("out"), by=DESKTOP, after=None, signature_good=True, device=LAPTOP, last=None)
    desktop = _shared(laptop, _part(DESKTOP)).learned(word)
    desktop = replace(desktop, tip=word.id)
    assert desktop.known.view.token is None
    assert _refusal(desktop, Append()) is Why.OWNER_REVOKED
    assert _refusal(desktop, TakeOver(head=None, reason="")) is Why.SPLIT, "which head, only a person can say"
    desktop = _carry_out(desktop, TakeOver(head=laptop.tip, reason="it was stolen"))
    assert desktop.may_append() is None and desktop.known.view.owner == DESKTOP


def test_an_effect_that_may_be_repeated_is_started_again() -> None:
    part = _carry_out(_asked(_part()), Start(effect=E1, request=REQUEST)).loaded()
    part = replace(part, known=part.known.of_kinds({E1: EffectKind.REPEATABLE}))
    assert part.may_start(E1, REQUEST, 0) is None


def test_a_release_shuts_every_door_here_and_opens_them_there() -> None:
    laptop = _carry_out(_asked(_part()), Release(to=DESKTOP, transfer=TRANSFER))
    assert _refusal(laptop, Append()) is Why.NOT_OWNER
    assert _refusal(laptop, Start(effect=E1, request=REQUEST)) is Why.NOT_OWNER
    desktop = _shared(laptop, _part(DESKTOP)).loaded()
    assert desktop.may_start(E1, REQUEST, 0) is None, "a release proves that it was not started"


def test_a_release_first_says_what_was_started() -> None:
    part = _carry_out(_asked(_part()), Start(effect=E1, request=REQUEST))
    assert _refusal(part, Release(to=DESKTOP, transfer=TRANSFER)) is Why.RUNNING
    part = _carry_out(part.loaded(), Release(to=DESKTOP, transfer=TRANSFER))
    desktop = _shared(part, _part(DESKTOP)).loaded()
    assert _refusal(desktop, Start(effect=E1, request=REQUEST)) is Why.UNCERTAIN


def test_while_an_effect_runs_nothing_is_taken_over_and_nobody_settles_it() -> None:
    part = _carry_out(_asked(_part()), Start(effect=E1, request=REQUEST))
    assert _refusal(part, TakeOver(head=None, reason="again")) is Why.RUNNING
    assert all(_refusal(part, Settle(effect=E1, word=word)) is Why.RUNNING for word in Word)
    ended = part.loaded()
    assert ended.may_take_over(None) is None
    settled = _carry_out(ended, Settle(effect=E1, word=Word.RAN))
    assert settled.known.progress(settled.known.view.main)[E1] is Progress.SETTLED


def test_who_signed_something_here_may_know_more_without_having_acknowledged_anything() -> None:
    part = replace(_asked(_part()), around=Around(woke_ms=0))
    assert part.may_start(E1, REQUEST, WAKE_WAIT_MS_MAX) is None
    signed = Receipt(
        id=_sid("receipt"), by=DESKTOP, after=None, signature_good=True, effect=E2, token=_sid("t"), reply=None
    )
    refusal = part.learned(signed).may_start(E1, REQUEST, WAKE_WAIT_MS_MAX)
    assert refusal is not None and refusal.why is Why.ALONE


@pytest.mark.parametrize("to", [LAPTOP, PHONE, DeviceId(b"stranger")])
def test_a_session_is_released_to_another_full_member_only(to: DeviceId) -> None:
    part = _part(members={**FULL, PHONE: Role.CONTROLLER})
    assert _refusal(part, Release(to=to, transfer=TRANSFER)) is Why.NO_TARGET
    assert part.may_release(DESKTOP, 0) is None


def test_a_session_is_not_released_to_a_revoked_device() -> None:
    part = _asked(_part())
    out = Revocation(id=_sid("out"), by=LAPTOP, after=part.after, signature_good=True, device=DESKTOP, last=None)
    assert part.may_release(DESKTOP, 0) is None
    assert _refusal(part.signed(out), Release(to=DESKTOP, transfer=TRANSFER)) is Why.NO_TARGET


def test_a_takeover_follows_the_winner_of_a_tie() -> None:
    part = _part(members={**FULL, PHONE: Role.FULL})
    record: dict[str, Any] = {"signature_good": True, "prev": part.known.session, "number": 2, "head": None}
    release = Record(
        id=StatementId(bytes(32)), by=LAPTOP, after=part.tip, kind=RecordKind.RELEASE, to=DESKTOP, **record
    )
    takeover = Record(id=StatementId(b"\xff" * 32), by=PHONE, after=None, kind=RecordKind.TAKEOVER, to=PHONE, **record)
    outputs = decide(replace(part.learned(release, takeover), leg=None), TakeOver(head=None, reason="r"), 0)
    drafts = [output.draft for output in outputs if isinstance(output, Persist)]
    assert [(draft.prev, draft.number) for draft in drafts if isinstance(draft, RecordDraft)] == [(release.id, 3)]


def test_a_fenced_device_ends_its_effect_writes_receipt_and_closing_and_stops() -> None:
    laptop = _carry_out(_asked(_part()), Start(effect=E1, request=REQUEST))
    desktop = _carry_out(_shared(laptop, _part(DESKTOP)), TakeOver(head=None, reason="it hangs"))
    laptop = _shared(desktop, laptop)
    assert decide(laptop, Append(), 0) == [Stop(effect=E1)]
    assert laptop.leg is not None
    laptop = replace(laptop, leg=replace(laptop.leg, running=None, replied=(E1, Sha256(bytes(32)))))
    kinds: list[type] = []
    while outputs := decide(laptop, None, 0):
        assert [type(o) for o in outputs] == [Persist, Send]
        assert isinstance(outputs[0], Persist)
        kinds.append(type(outputs[0].draft))
        laptop = laptop.signed(_sign(laptop, outputs[0].draft))
    assert kinds == [ReceiptDraft, CheckpointDraft]
    desktop = _shared(laptop, desktop)
    assert desktop.known.view.evidence == {E1}
    assert _refusal(desktop, Start(effect=E1, request=REQUEST)) is Why.UNCERTAIN, "evidence settles nothing by itself"


def test_a_closing_checkpoint_that_says_asked_frees_the_taker() -> None:
    laptop = _asked(_part())
    desktop = _carry_out(_shared(laptop, _part(DESKTOP)), TakeOver(head=None, reason="away"))
    assert _refusal(desktop, Start(effect=E1, request=REQUEST)) is Why.UNCERTAIN
    laptop = _carry_out(_shared(desktop, laptop), None)
    assert laptop.closing() is None, "one, not two"
    assert _shared(laptop, desktop).may_start(E1, REQUEST, 0) is None


def test_nothing_is_owed_where_nothing_is_open() -> None:
    laptop = _carry_out(_part(), Append())
    desktop = _carry_out(_shared(laptop, _part(DESKTOP)), TakeOver(head=None, reason="away"))
    laptop = _shared(desktop, laptop)
    assert decide(laptop, None, 0) == []
    assert laptop.leg is not None
    assert replace(laptop, leg=replace(laptop.leg, unsaved=True)).closing() is not None


def test_a_revoked_owner_stops_and_closes() -> None:
    laptop = _asked(_part())
    tip = laptop.tip
    word = Revocation(id=_sid("out"), by=DESKTOP, after=None, signature_good=True, device=LAPTOP, last=tip)
    laptop = laptop.learned(word)
    laptop = _carry_out(laptop, None)
    assert _refusal(laptop, Append()) is Why.REVOKED
    assert _refusal(laptop, TakeOver(head=None, reason="mine")) is Why.REVOKED
    desktop = _shared(laptop, _part(DESKTOP))
    assert _refusal(desktop, Append()) is Why.OWNER_REVOKED
    desktop = _carry_out(desktop, TakeOver(head=None, reason="it was stolen"))
    assert desktop.may_append() is None


def test_going_on_from_another_head_is_a_new_record_also_for_the_owner() -> None:
    laptop = _carry_out(_part(), Append())
    first = laptop.known.view.main
    assert first is not None
    laptop = _carry_out(laptop, Append())
    second = laptop.known.view.main
    assert second is not None
    assert decide(laptop, GoOnFrom(head=second, reason=""), 0) == [Done()]
    laptop = _carry_out(laptop, GoOnFrom(head=first, reason="the other way led nowhere"))
    view = laptop.known.view
    assert view.token is not None and view.token.number == 2 and view.main == first
    assert view.heads == {first, second}
    assert laptop.may_append() is None


def test_a_head_that_is_not_here_cannot_be_gone_on_from() -> None:
    assert _refusal(_part(), TakeOver(head=_sid("nowhere"), reason="")) is Why.HEAD_NOT_HERE
    laptop = _carry_out(_part(), Append())
    released = _carry_out(laptop, Release(to=DESKTOP, transfer=TRANSFER))
    head = laptop.known.view.main
    desktop = _part(DESKTOP).learned(*(s for s in released.known.statements.values() if s.id != head))
    assert _refusal(desktop, Append()) is Why.HEAD_NOT_HERE
    assert _refusal(desktop, TakeOver(head=None, reason="")) is Why.HEAD_NOT_HERE


def test_nothing_stands_on_a_checkpoint_whose_content_is_not_here() -> None:
    part = _asked(_asked(_part()), E2)
    main = part.known.view.main
    assert main is not None and part.leg is not None
    (parent,) = part.known.statements[main].parents  # type: ignore[union-attr]
    bare = replace(part, bare=frozenset({main}))
    assert [_refusal(bare, wish) for wish in (Append(), TakeOver(head=None, reason="r"))] == [Why.HEAD_NOT_HERE] * 2
    assert _refusal(bare, TakeOver(head=main, reason="r")) is Why.HEAD_NOT_HERE
    taken = _carry_out(replace(bare, leg=None), TakeOver(head=parent, reason="r"))
    assert taken.closing() is None, "it is owed, and cannot be written here"
    assert replace(taken, bare=frozenset()).closing() is not None


def test_what_runs_from_an_older_state_is_loaded_again() -> None:
    laptop = _carry_out(_part(), Append())
    away = _carry_out(laptop, Release(to=DESKTOP, transfer=TRANSFER))
    back = _carry_out(_shared(away, _part(DESKTOP)).loaded(), Release(to=LAPTOP, transfer=TRANSFER))
    laptop = _shared(back, laptop)
    assert _refusal(laptop, Append()) is Why.STALE
    assert laptop.loaded().may_append() is None


def test_a_restored_store_reads_until_a_takeover() -> None:
    backup = _asked(_part())
    lost = _carry_out(backup, Start(effect=E1, request=REQUEST))
    restored = _shared(lost, backup.loaded())
    assert _refusal(restored, Append()) is Why.ROLLED_BACK
    assert _refusal(restored, Start(effect=E1, request=REQUEST)) is Why.ROLLED_BACK
    assert backup.loaded().may_start(E1, REQUEST, 0) is None, "what nobody shows cannot be known"
    again = _carry_out(restored, TakeOver(head=None, reason="restored"))
    assert again.may_append() is None
    assert not again.known.view.rolled_back, "the chain goes on from what was lost"
    assert _refusal(again, Start(effect=E1, request=REQUEST)) is Why.UNCERTAIN


def test_a_token_that_was_acknowledged_before_a_roll_back_is_denied() -> None:
    released = _carry_out(_carry_out(_part(), Append()), Release(to=DESKTOP, transfer=TRANSFER))
    desktop = _shared(released, _part(DESKTOP)).loaded()
    assert desktop.may_append() is None
    token = desktop.known.view.token
    assert token is not None
    denied = replace(desktop, denied=frozenset({token.id}))
    assert _refusal(denied, Append()) is Why.ROLLED_BACK
    assert _carry_out(denied, TakeOver(head=None, reason="restored")).may_append() is None


def test_another_request_at_the_same_place_is_shown() -> None:
    laptop = _asked(_part())
    desktop = _carry_out(_shared(laptop, _part(DESKTOP)), TakeOver(head=None, reason="away"))
    laptop = _carry_out(laptop, Start(effect=E1, request=OTHER_REQUEST))
    desktop = _shared(laptop, desktop)
    assert _refusal(desktop, Start(effect=E1, request=REQUEST)) is Why.OTHER_REQUEST
    assert _refusal(desktop, Start(effect=E1, request=OTHER_REQUEST)) is Why.UNCERTAIN


AWAKE = WAKE_WAIT_MS_MAX + 1_000
NOBODY: frozenset[DeviceId] = frozenset()
THERE = frozenset({DESKTOP})


@pytest.mark.parametrize(
    ("connected", "answered", "attached", "late", "why"),
    [
        (NOBODY, NOBODY, False, False, Why.WAKING),
        (NOBODY, NOBODY, False, True, Why.ALONE),
        (NOBODY, NOBODY, True, False, None),
        (THERE, NOBODY, False, False, Why.WAKING),
        (THERE, NOBODY, True, False, Why.WAKING),
        (THERE, NOBODY, True, True, None),
        (THERE, NOBODY, False, True, Why.ALONE),
        (THERE, THERE, False, False, None),
        (NOBODY, THERE, False, False, None),
        (frozenset({DESKTOP, PHONE}), THERE, False, False, Why.WAKING),
        (frozenset({DESKTOP, PHONE}), THERE, False, True, None),
    ],
)
def test_who_wakes_asks_the_others_first(
    connected: frozenset[DeviceId], answered: frozenset[DeviceId], attached: bool, late: bool, why: Why | None
) -> None:
    part = _asked(_part(members={**FULL, PHONE: Role.FULL}))
    around = Around(woke_ms=1_000, connected=connected, answered=answered, attached=attached)
    part = replace(part, around=around, acknowledged_by=THERE)
    now_ms = AWAKE if late else AWAKE - 1
    for refusal in (part.may_start(E1, REQUEST, now_ms), part.may_release(DESKTOP, now_ms)):
        assert (refusal and refusal.why) is why
    assert part.may_append() is None and part.may_take_over(None) is None
    assert part.deadline() == (None if answered >= connected and answered else AWAKE)


def test_a_session_that_nobody_else_could_know_more_of_never_waits() -> None:
    around = Around(woke_ms=1_000)
    part = replace(_asked(_part()), around=around)
    assert part.may_start(E1, REQUEST, 1_000) is None, "nobody acknowledged a checkpoint"
    waiting = replace(part, acknowledged_by=THERE)
    refusal = waiting.may_start(E1, REQUEST, 1_000)
    assert refusal is not None and refusal.until_ms == AWAKE
    gone = Revocation(id=_sid("out"), by=LAPTOP, after=None, signature_good=True, device=DESKTOP, last=None)
    assert waiting.learned(gone).may_start(E1, REQUEST, 1_000) is None, "the way out: revoke it"
    single = replace(_asked(_part(members={LAPTOP: Role.FULL, PHONE: Role.CONTROLLER})), around=around)
    assert replace(single, acknowledged_by=frozenset({PHONE})).may_start(E1, REQUEST, 1_000) is None


@pytest.mark.parametrize(("asleep_ms", "slept"), [(0, False), (SUSPENDED_MS_MAX, False), (SUSPENDED_MS_MAX + 1, True)])
def test_only_a_long_suspension_counts_as_waking(asleep_ms: int, slept: bool) -> None:
    before = Clocks(boot_ms=5_000, awake_ms=4_000)
    after = Clocks(boot_ms=95_000 + asleep_ms, awake_ms=94_000)
    assert after.slept_since(before) is slept


def test_every_refusal_has_words_and_a_way_out() -> None:
    assert holding.WORDS.keys() == set(Why)
    assert holding.Refusal(why=Why.ALONE).way_out is WayOut.PERSON
    assert all(words and words[0].islower() and not words.endswith(".") for words, _ in holding.WORDS.values())


def test_a_device_that_is_no_full_member_or_knows_no_record_does_nothing() -> None:
    part = _part(PHONE, members={**FULL, PHONE: Role.CONTROLLER})
    assert _refusal(part, TakeOver(head=None, reason="")) is Why.NOT_FULL
    empty = replace(_part(DESKTOP), known=Known(session=_create().id, members=FULL, statements={}))
    assert _refusal(empty, Append()) is Why.NO_RECORD


def test_a_removed_session_is_left_alone() -> None:
    laptop = _carry_out(_part(), Append())
    heads = laptop.known.view.heads
    stone = Tombstone(
        id=_sid("gone"), by=DESKTOP, after=None, signature_good=True, heads=tuple(heads), covers=frozenset()
    )
    removed = laptop.learned(stone)
    assert _refusal(removed, Append()) is Why.REMOVED
    assert _refusal(removed, TakeOver(head=None, reason="")) is Why.REMOVED


def test_learning_again_changes_nothing() -> None:
    part = _asked(_part())
    assert part.learned(*part.known.statements.values()) is part
