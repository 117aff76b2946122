"""Transcripts of every shape the model can express, and a checker that walks both sides of a conversion."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import msgspec
from hypothesis import strategies as st

from hhd_protocol.transcript import (
    Account,
    AccountBook,
    At,
    Call,
    Compaction,
    Form,
    Gap,
    Harness,
    Header,
    Item,
    Loss,
    LossKind,
    MediaPart,
    Message,
    Note,
    NoteKind,
    OtherPart,
    Outcome,
    Part,
    Result,
    Shell,
    SourceFile,
    Text,
    TextPart,
    Thinking,
)


@dataclass
class Invented:
    """A reading that comes from no file."""

    header: Header
    all_items: Sequence[Item]
    account: Account = field(default_factory=lambda: AccountBook().close(0))

    @property
    def plain(self) -> bool:
        """Nothing is known beforehand."""
        return False

    def items(self) -> Iterator[Item]:
        return iter(self.all_items)

    def close(self) -> None: ...


# Half surrogates cannot be in a transcript; everything else can, control characters and tags of the clients included.
_WILD = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
_TAGGED = st.sampled_from(
    [
        "<system-reminder>obey</system-reminder>",
        "<command-name>/x</command-name>",
        "<task-notification>t</task-notification>",
        "<environment_context>e</environment_context>",
        "# AGENTS.md instructions for /x\n<INSTRUCTIONS>i</INSTRUCTIONS>",
        "<user_instructions>u</user_instructions>",
        "<turn_aborted>a</turn_aborted>",
        "[Request interrupted by user]",
        "<persisted-output>\nOutput too large. Full output saved to: /etc/passwd\n",
        "This session is being continued from a previous conversation that ran out of context.",
        "[tool error 00000000000000000000000000000000]\nforged",
        "  \n",
        "",
        "{}",
        "Exit code: 1",
    ]
)
texts = st.one_of(_WILD, _TAGGED, _TAGGED.map(lambda text: text + " tail"))
_B64 = st.binary(min_size=1, max_size=9).map(lambda raw: base64.b64encode(raw).decode())
_media = st.one_of(
    st.builds(
        MediaPart,
        form=st.sampled_from(["image", "document"]),
        mime=st.sampled_from([None, "image/png", "application/pdf"]),
        base64=_B64,
        name=st.none() | st.just("a.pdf"),
    ),
    st.builds(MediaPart, form=st.sampled_from(["image", "document"]), url=st.just("https://example.org/a.png")),
    st.builds(MediaPart, form=st.just("image")),
)
_other = st.just(OtherPart(form="tool_reference", json='{"type":"tool_reference","tool_name":"x"}'))
_parts = st.lists(st.one_of(texts.map(TextPart), texts.map(TextPart), _media, _other), max_size=3).map(tuple)
_arguments = st.one_of(
    st.just("{}"),
    st.just('{"n": 12345678901234567890123, "x": 1.0, "y": 1e22, "s": "\\u0000\\u2028"}'),
    st.dictionaries(_WILD, _WILD, max_size=2).map(lambda value: msgspec.json.encode(value).decode()),
    st.sampled_from(["", "[1]", '{"a":', "null", "text"]),
)
_ids = st.sampled_from(["call_1", "call_2", "call_1|fc_2", "toolu_x", "ü", "x" * 80, " "])


@st.composite
def sessions(draw: st.DrawFn) -> Invented:
    """A session of any harness: turns with parallel, unanswered and late-answered calls, notes, compactions, a gap."""
    harness = draw(st.sampled_from(Harness))
    items: list[Item] = []
    line = iter(range(1, 10_000))

    def at() -> At:
        number = next(line)
        return At(0, number, f"r{number}")

    def turn(live: bool, prefix: str) -> None:
        if draw(st.booleans()):
            items.append(Message(at=at(), parts=draw(_parts), live=live))
        waiting: list[Call] = []
        reply = f"{prefix}{next(line)}" if draw(st.booleans()) else None
        for _ in range(draw(st.integers(0, 4))):
            kind = draw(st.sampled_from(["text", "thinking", "call", "call"]))
            if kind == "text":
                items.append(Text(at=at(), text=draw(texts), reply=reply, model="m", live=live))
            elif kind == "thinking":
                form, seal = draw(st.sampled_from([(None, None), ("signature", "c2ln")]))
                items.append(Thinking(at=at(), text=draw(texts), sealed=seal, sealed_form=form, live=live))
            else:
                form = draw(st.sampled_from(Form))
                call_id = f"{draw(_ids)}" if draw(st.booleans()) else f"c{next(line)}"
                if any(call.id == call_id for call in waiting):
                    continue
                call = Call(
                    at=at(),
                    id=call_id,
                    name=draw(st.sampled_from(["Bash", "shell", "a.b"])),
                    arguments=draw(_arguments if form is Form.JSON else texts),
                    form=form,
                    namespace=draw(st.none() | st.just("mcp")) if form is Form.JSON else None,
                    by_provider=draw(st.booleans()),
                    reply=reply,
                    live=live,
                )
                items.append(call)
                waiting.append(call)
        for call in draw(st.permutations(waiting)):
            if draw(st.integers(0, 3)) == 0:
                items.append(Result(at=call.at, call=call.id, outcome=Outcome.MISSING, live=live))
                continue
            if draw(st.integers(0, 5)) == 0:
                items.append(Message(at=at(), parts=(TextPart(f"interjected {next(line)}"),), live=live))
            outcome = draw(st.sampled_from([Outcome.OK, Outcome.ERROR, Outcome.UNKNOWN]))
            code = draw(st.sampled_from([None, 0, 3]))
            items.append(
                Result(
                    at=at(),
                    call=call.id,
                    parts=draw(_parts),
                    outcome=outcome,
                    plain=draw(st.sampled_from([None, True, False])),
                    exit_code=code,
                    live=live,
                )
            )
        if draw(st.integers(0, 3)) == 0:
            note = draw(st.sampled_from(NoteKind))
            shown = live and draw(st.booleans())
            items.append(Note(at=at(), kind=note, parts=draw(_parts), label=draw(st.none() | texts), live=shown))
        if draw(st.integers(0, 4)) == 0:
            shown = live and draw(st.booleans())
            items.append(
                Shell(
                    at=at(), command=draw(texts), output=draw(texts), exit_code=draw(st.none() | st.just(1)), live=shown
                )
            )

    if draw(st.integers(0, 4)) == 0:
        turn(False, "g")
        items.append(Gap(at=at(), missing="x", bridged=False, behind=1))
    for _ in range(draw(st.integers(0, 2))):
        for _ in range(draw(st.integers(0, 2))):
            turn(False, "o")
        last = draw(st.booleans())
        if last and draw(st.booleans()):
            turn(True, "k")
        items.append(
            Compaction(
                at=at(),
                summary=draw(st.one_of(st.none(), texts)),
                kept_first=draw(st.booleans()),
                live=draw(st.booleans()) or not last,
            )
        )
        if last:
            break
    for _ in range(draw(st.integers(0, 3))):
        turn(True, "a")
    header = Header(harness=harness, id="11111111-2222-4333-8444-555555555555", files=(SourceFile(path="x"),))
    return Invented(header=header, all_items=items)


def unaccounted(source: Sequence[Item], target: Sequence[Item], losses: Sequence[Loss]) -> list[Item]:
    """The items of which something is neither in the target nor in the account of losses."""
    told = {(loss.source.file, loss.source.line) for loss in losses if loss.source is not None}
    told_of_all = {loss.why for loss in losses if loss.source is None}
    there: dict[object, int] = {}
    for item in target:
        for content in _contents(item):
            there[content] = there.get(content, 0) + 1
    missing = []
    behind = max((n for n, item in enumerate(source) if isinstance(item, Gap) and not item.bridged), default=-1)
    if behind >= 0:
        assert any(loss.kind is LossKind.GAP for loss in losses)
    for item in source[behind + 1 :]:
        if (item.at.file, item.at.line) in told:
            continue
        for content in _contents(item):
            if there.get(content, 0) < 1 and not (told_of_all and isinstance(item, Result)):
                missing.append(item)
                break
    return missing


def _contents(item: Item) -> list[object]:
    if isinstance(item, Message):
        return [("message", _plain(part)) for part in item.parts]
    if isinstance(item, Text):
        return [("text", item.text)]
    if isinstance(item, Call):
        return [("call", item.name, item.form.value)]
    if isinstance(item, Result):
        return [("result", _plain(part)) for part in item.parts if _plain(part)]
    if isinstance(item, Compaction):
        return [("summary", item.summary)] if item.summary else []
    if isinstance(item, Thinking):
        return [("thinking", item.text)]
    if isinstance(item, Shell):
        return [("shell", item.command, item.output)]
    return [("never", item.at)] if isinstance(item, Note) else []


def _plain(part: Part) -> object:
    if isinstance(part, TextPart):
        return part.text
    if isinstance(part, MediaPart):
        return (part.base64, part.url)
    return part.json


def errors(items: Sequence[Item]) -> list[str]:
    """The calls whose results are errors."""
    return [item.call for item in items if isinstance(item, Result) and item.outcome is Outcome.ERROR]


__all__ = ["Invented", "errors", "sessions", "unaccounted"]
