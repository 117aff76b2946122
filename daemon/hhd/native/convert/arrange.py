"""From the items of a source to the steps of a target: here every choice about what is kept, changed or lost is made.

Streaming: an item leaves as soon as it can. Held are only a reply whose results are not all there, and the items that
a compaction keeps, which are few; that is why the outlook (how many compactions and cuts are still to come) must be
known beforehand.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec

from hhd.native.claude_items import label_of
from hhd.native.convert.ids import CallIds
from hhd.native.convert.ledger import Ledger
from hhd.native.convert.marks import mark, unmark
from hhd.native.convert.order import Orderer
from hhd.native.convert.parts import fit_parts
from hhd.native.convert.places import PLACES
from hhd.native.convert.steps import Cut, Fold, Spoken, Step
from hhd_protocol.transcript import (
    At,
    Call,
    Compaction,
    Did,
    Form,
    Gap,
    Harness,
    Item,
    LossKind,
    Message,
    Note,
    NoteKind,
    Outcome,
    Part,
    Result,
    Shell,
    Text,
    TextPart,
    Thinking,
)

INTERRUPTED = "Interrupted: no result of this call was recorded."
BY_PROVIDER = "Run by the model's provider: it recorded no separate result."

_LABELS = {
    NoteKind.LOCAL_COMMAND: "command typed into the client",
    NoteKind.BRANCH_SUMMARY: "summary of a branch that was left",
    NoteKind.CUSTOM: "note by an extension",
    NoteKind.ORPHAN_RESULT: "result of a call that is not in the record",
    NoteKind.SUBAGENT_REPORT: "report of a helper",
    NoteKind.ABORTED: "the turn was interrupted",
}
"""Notes that go along, as labelled text. The others are the client's own words, or were never sent."""

_REMINDER = re.compile(r"<system-reminder>(?:(?!<system-reminder>)[\s\S])*?</system-reminder>\s*")

_WORDLESS = frozenset({NoteKind.ABORTED})
"""Notes whose text is the client's frame: the label alone goes along."""


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """What a first pass over the items found: compactions, and gaps that the client does not bridge."""

    folds: int = 0
    cuts: int = 0


def outlook(items: Iterable[Item]) -> Outlook:
    """Count what `arrange` has to know beforehand."""
    folds = cuts = 0
    for item in items:
        if isinstance(item, Compaction):
            folds += 1
        elif isinstance(item, Gap) and not item.bridged:
            cuts += 1
    return Outlook(folds=folds, cuts=cuts)


class Arranger:
    """Arranges the items of one session; `error_key` signs error flags where the target has no place for them."""

    def __init__(self, *, source: Harness, target: Harness, ahead: Outlook, ledger: Ledger, error_key: bytes) -> None:
        self._same = source if source is target else None
        self._source = source
        self._target = target
        self._places = PLACES[target]
        self._folds = ahead.folds
        self._cuts = ahead.cuts
        self._ledger = ledger
        self._error_key = error_key
        self._ids = CallIds(self._places.call_ids)
        calls_last = target is not Harness.PI
        self._past = Orderer("p", calls_last=calls_last)
        self._orderer = Orderer("", calls_last=calls_last)
        self._kept: list[Spoken] = []
        self._fold: Fold | None = None
        self._standins = 0
        self._said_model = False
        self._fitters = {
            Message: self._message,
            Text: self._text,
            Thinking: self._thinking,
            Call: self._call,
            Result: self._result,
            Shell: self._shell,
            Note: self._note,
        }

    def reserve(self, call_id: str) -> None:
        """A call of that id stands in the file already: no other may take it."""
        self._ids.reserve(call_id)

    def steps(self, items: Iterable[Item]) -> Iterator[Step]:
        """The steps, in the order in which they are to be written."""
        for item in items:
            if isinstance(item, Compaction):
                yield from self._fold_at(item)
                continue
            if isinstance(item, Gap):
                yield from self._gap(item)
                continue
            is_standin = self._standins > 0
            self._standins -= is_standin
            fitted = self._fitters[type(item)](item)  # type: ignore[operator]
            if fitted is not None:
                if is_standin:
                    self._kept.extend(self._orderer.feed(fitted))
                elif self._folds:
                    if item.live:
                        self._kept.extend(self._orderer.feed(fitted))
                    else:
                        yield from self._past.feed(fitted)
                elif item.live:
                    yield from self._orderer.feed(fitted)
                else:
                    yield from self._hidden(fitted)
            if is_standin and self._standins == 0:
                yield from self._finish_fold()
        yield from self._past.close()
        yield from self._finish_fold()
        yield from self._orderer.close()
        self._report_order()

    def _fold_at(self, item: Compaction) -> Iterator[Step]:
        yield from self._past.close()
        yield from self._finish_fold()
        self._folds -= 1
        summary = item.summary if item.summary is not None else ""
        if self._same is None and _REMINDER.search(summary):
            self._ledger.note(LossKind.PRIVILEGED, Did.LEFT_OUT, "a reminder of the client inside a summary", item.at)
            summary = _REMINDER.sub("", summary)
        if self._folds:
            if summary:
                yield Fold(compaction=item, summary=summary, last=False)
            else:
                self._ledger.note(LossKind.COMPACTION, Did.LOST, "a compaction without summary", item.at)
            return
        kept = tuple(self._kept + self._orderer.close())
        self._kept = []
        live = summary if item.live else ""
        if summary and not live:
            why = "a summary that was not sent: what the compaction kept stands in its place"
            self._ledger.note(LossKind.COMPACTION, Did.LEFT_OUT, why, item.at)
        if item.kept_first:
            self._fold = Fold(compaction=item, summary=live, before=kept)
        else:
            self._fold = Fold(compaction=item, summary=live, after=kept)
        self._standins = item.standins
        if not self._standins:
            yield from self._finish_fold()

    def _finish_fold(self) -> Iterator[Step]:
        if self._fold is None:
            return
        fold, self._fold, self._standins = self._fold, None, 0
        standins = tuple(self._kept + self._orderer.close())
        self._kept = []
        if fold.before and self._target is not Harness.CODEX:
            why = "what the compaction kept stands after its summary, not before"
            self._ledger.note(LossKind.COMPACTION, Did.CHANGED, why, fold.compaction.at)
            fold = Fold(compaction=fold.compaction, summary=fold.summary, after=fold.before + standins)
        else:
            fold = Fold(
                compaction=fold.compaction, summary=fold.summary, before=fold.before, after=fold.after + standins
            )
        if fold.summary or fold.before or fold.after:
            yield fold
        else:
            self._ledger.note(LossKind.COMPACTION, Did.LOST, "a compaction without summary", fold.compaction.at)

    def _gap(self, gap: Gap) -> Iterator[Step]:
        if gap.bridged:
            why = "a missing predecessor is passed over, as the client does"
            self._ledger.note(LossKind.GAP, Did.CHANGED, why, gap.at)
            return
        self._cuts -= 1
        if self._folds:
            why = f"{gap.behind} records behind a missing predecessor stand with what the compaction replaced"
            self._ledger.note(LossKind.GAP, Did.CHANGED, why, gap.at)
            return
        yield from self._past.close()
        if self._places.new_roots:
            why = f"{gap.behind} records behind a missing predecessor are kept, and not sent"
            self._ledger.note(LossKind.GAP, Did.CHANGED, why, gap.at)
            yield Cut()
        else:
            why = f"{gap.behind} records behind a missing predecessor have no place there"
            self._ledger.note(LossKind.GAP, Did.LOST, why, gap.at)

    def _hidden(self, item: Spoken) -> Iterator[Step]:
        """An item that is not sent, with no compaction ahead that would explain it."""
        if self._cuts and self._places.new_roots:
            yield from self._past.feed(item)
        elif isinstance(item, Shell) and self._places.shells:
            yield from self._orderer.feed(item)
        elif self._cuts:
            self._ledger.note(LossKind.GAP, Did.LOST, "an item behind a missing predecessor", item.at)
        else:
            kind = LossKind.SHELL if isinstance(item, Shell) else LossKind.NOTE
            self._ledger.note(kind, Did.LEFT_OUT, "it was never shown to the model", item.at)

    def _report_order(self) -> None:
        moved = self._past.moved + self._orderer.moved
        if moved:
            why = "it stood between a call and its result, and comes after the result"
            self._ledger.note(LossKind.TEXT, Did.CHANGED, why, None, count=moved)
        strays = self._past.strays + self._orderer.strays
        if strays:
            self._ledger.note(LossKind.RESULT, Did.LOST, "a result whose call is not there", None, count=strays)

    # What becomes of each kind of item.

    def _message(self, item: Message) -> Message | None:
        parts = self._fit(item.parts, item.at, in_result=False)
        if self._target is Harness.CLAUDE:
            parts = self._unlike_the_client(parts, item.at)
        if not parts:
            if not item.parts:
                self._ledger.note(LossKind.TEXT, Did.LEFT_OUT, "a message without content", item.at)
            return None
        return item if parts is item.parts else msgspec.structs.replace(item, parts=parts)

    def _unlike_the_client(self, parts: tuple[Part, ...], at: At) -> tuple[Part, ...]:
        """Texts that Claude Code would take for its own bookkeeping get a label before them."""
        if not any(type(part) is TextPart and label_of(part.text) for part in parts):
            return parts
        why = "the text begins like one of the client's own; a label stands before it"
        self._ledger.note(LossKind.TEXT, Did.CHANGED, why, at)
        return tuple(
            TextPart(f"[as typed]\n{part.text}") if type(part) is TextPart and label_of(part.text) else part
            for part in parts
        )

    def _text(self, item: Text) -> Text | None:
        if item.model is not None and not self._places.models and not self._said_model:
            self._said_model = True
            self._ledger.note(LossKind.MODEL, Did.LEFT_OUT, "the names of the models that replied", item.at)
        if item.text.strip():
            return item
        self._ledger.note(LossKind.TEXT, Did.LEFT_OUT, "a text without content", item.at)
        return None

    def _thinking(self, item: Thinking) -> Thinking | None:
        if self._same is not None and (item.sealed is not None or self._same is not Harness.CLAUDE):
            return item
        why = "a thought is bound to the account and provider it came from"
        if self._same is not None:
            why = "a thought without signature is refused by the service"
        self._ledger.note(LossKind.THINKING, Did.LOST, why, item.at)
        return None

    def _call(self, item: Call) -> Call:
        changes: dict[str, object] = {}
        target_id = self._ids.assign(item.id)
        if target_id != item.id:
            changes["id"] = target_id
            why = "the id of a call has characters or a length that the target refuses, or was used before"
            self._ledger.note(LossKind.CALL_ID, Did.CHANGED, why, item.at)
        if item.form is Form.TEXT and not self._places.text_calls:
            changes["form"] = Form.JSON
            changes["arguments"] = msgspec.json.encode({"input": item.arguments}).decode()
            why = 'free text became the field "input" of an object'
            self._ledger.note(LossKind.ARGUMENTS, Did.CHANGED, why, item.at)
        elif item.form is Form.JSON and not is_object(item.arguments):
            changes["arguments"] = msgspec.json.encode({"input": item.arguments}).decode()
            why = 'arguments that are no JSON object became the field "input" of one'
            self._ledger.note(LossKind.ARGUMENTS, Did.CHANGED, why, item.at)
        if item.namespace is not None and not self._places.namespaces:
            changes["namespace"] = None
            self._ledger.note(LossKind.ARGUMENTS, Did.LOST, "the namespace of a tool's name", item.at)
        if item.by_provider:
            changes["by_provider"] = False
            why = "a call that the provider ran became an ordinary one"
            self._ledger.note(LossKind.ARGUMENTS, Did.CHANGED, why, item.at)
            self._ids.run_by_provider(item.id)
        return msgspec.structs.replace(item, **changes) if changes else item

    def _result(self, item: Result) -> Result | None:
        target_call = self._ids.answer(item.call)
        if target_call is None:
            self._ledger.note(LossKind.RESULT, Did.LOST, "a result whose call is not there", item.at)
            return None
        if item.outcome is Outcome.MISSING:
            return self._missing(item, target_call)
        parts = self._fit(item.parts, item.at, in_result=True)
        outcome: Outcome = item.outcome
        if self._source is Harness.CODEX:
            parts, outcome = self._unmarked(item, parts, outcome)
        if item.spilled is not None:
            why = "the preview is carried; the whole output is a side file, kept with the original"
            self._ledger.note(LossKind.SIDE_FILE, Did.LOST, why, item.at)
        if outcome is Outcome.UNKNOWN:
            outcome = self._from_exit_code(item)
        if outcome is Outcome.ERROR and not self._places.error_flags:
            first = parts[0] if parts and isinstance(parts[0], TextPart) else TextPart("")
            rest = parts[1:] if parts and parts[0] is first else parts
            parts = (TextPart(mark(self._error_key, target_call) + first.text), *rest)
            why = "the error flag travels as a signed mark at the start of the text"
            self._ledger.note(LossKind.ERROR_FLAG, Did.CHANGED, why, item.at)
        unchanged = parts is item.parts and outcome is item.outcome and target_call == item.call
        if unchanged and item.spilled is None:
            return item
        return msgspec.structs.replace(item, call=target_call, parts=parts, outcome=outcome, spilled=None)

    def _missing(self, item: Result, call: str) -> Result:
        if self._ids.was_run_by_provider(item.call):
            why = "the provider's own call has no result of its own; a text says so"
            self._ledger.note(LossKind.RESULT, Did.CHANGED, why, item.at)
            text, outcome = BY_PROVIDER, Outcome.OK
        else:
            why = "a call without a recorded result is closed as interrupted"
            self._ledger.note(LossKind.UNANSWERED, Did.CHANGED, why, item.at)
            text, outcome = INTERRUPTED, Outcome.ERROR
            if not self._places.error_flags:
                text = mark(self._error_key, call) + text
        return msgspec.structs.replace(
            item, call=call, parts=(TextPart(text),), outcome=outcome, plain=True, spilled=None
        )

    def _unmarked(self, item: Result, parts: tuple[Part, ...], outcome: Outcome) -> tuple[tuple[Part, ...], Outcome]:
        first = parts[0] if parts else None
        if isinstance(first, TextPart) and (text := unmark(self._error_key, item.call, first.text)) is not None:
            return (TextPart(text), *parts[1:]), Outcome.ERROR
        return parts, outcome

    def _from_exit_code(self, item: Result) -> Outcome:
        if item.exit_code is None or item.exit_code == 0:
            return Outcome.OK
        if self._places.error_flags:
            why = "the error flag is set, since an event says that the command's exit code was not 0"
            self._ledger.note(LossKind.ERROR_FLAG, Did.CHANGED, why, item.at)
            return Outcome.ERROR
        return Outcome.OK

    def _shell(self, item: Shell) -> Shell | Message | None:
        if self._places.shells:
            return item
        if not item.live and not self._folds and not self._cuts:
            self._ledger.note(LossKind.SHELL, Did.LEFT_OUT, "a command hidden from the model", item.at)
            return None
        why = "a command that the person ran became labelled text"
        self._ledger.note(LossKind.SHELL, Did.CHANGED, why, item.at)
        ending = "cancelled" if item.cancelled else f"exit code {item.exit_code}"
        text = f"[command the person ran, {ending}]\n$ {item.command}\n{item.output}"
        return Message(at=item.at, parts=(TextPart(text),), time=item.time, live=item.live)

    def _note(self, item: Note) -> Message | None:
        label = _LABELS.get(item.kind)
        if label is None or (not item.live and not self._folds and not self._cuts):
            promoted = item.kind in (NoteKind.HARNESS, NoteKind.API_ERROR)
            kind = LossKind.PRIVILEGED if promoted else LossKind.NOTE
            why = "the client's own words never become anyone's text" if promoted else f"a {item.kind.value} note"
            self._ledger.note(kind, Did.LEFT_OUT, why, item.at)
            return None
        is_orphan = item.kind is NoteKind.ORPHAN_RESULT
        why = f"a {item.kind.value} note became labelled text"
        self._ledger.note(LossKind.ORPHAN if is_orphan else LossKind.NOTE, Did.CHANGED, why, item.at)
        head = f"[{label}]" if item.label is None or item.kind in _WORDLESS else f"[{label}: {item.label}]"
        body = () if item.kind in _WORDLESS else self._fit(item.parts, item.at, in_result=False)
        if body and isinstance(body[0], TextPart):
            head, body = f"{head}\n{body[0].text}", body[1:]
        if self._target is Harness.CLAUDE:
            body = self._unlike_the_client(body, item.at)
        return Message(at=item.at, parts=(TextPart(head), *body), time=item.time, live=item.live)

    def _fit(self, parts: tuple[Part, ...], at: At, *, in_result: bool) -> tuple[Part, ...]:
        if len(parts) == 1 and type(parts[0]) is TextPart and (in_result or parts[0].text.strip()):
            return parts
        return fit_parts(
            parts,
            self._places,
            self._same,
            in_result=in_result,
            note=lambda kind, did, why: self._ledger.note(kind, did, why, at),
        )


def is_object(arguments: str) -> bool:
    """Whether `arguments` is the JSON text of an object, with well-formed strings."""
    if not arguments.lstrip().startswith("{"):
        return False
    try:
        return isinstance(msgspec.json.decode(arguments), dict)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return False
