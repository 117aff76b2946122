"""The items that Codex's response items are."""

from __future__ import annotations

import re

import msgspec
from msgspec import UNSET, Raw, UnsetType

from hhd.native.codex_records import SUMMARY_KIND, Content, Payload, contents, is_tag, mark_of
from hhd_protocol.transcript import (
    At,
    Call,
    Form,
    Item,
    MediaPart,
    Message,
    Note,
    NoteKind,
    OtherPart,
    Outcome,
    Part,
    Reason,
    Result,
    Text,
    TextPart,
    Thinking,
)

_MESSAGE_PARTS = frozenset({"input_text", "output_text", "input_image"})

_NOTES = {
    "turn_aborted": NoteKind.ABORTED,
    "subagent_notification": NoteKind.SUBAGENT_REPORT,
    "user_shell_command": NoteKind.LOCAL_COMMAND,
}


class Translator:
    """Turns response items into items. `line` is the number for provenance, `place` one that is unique in a reading."""

    def __init__(self, exits: dict[int, int]) -> None:
        self._exits = exits
        self.model: str | None = None
        self.dropped: set[str] = set()

    def item(
        self, payload: Payload, at: At, time: str | None, live: bool, spoken: bool, out: list[Item]
    ) -> Reason | None:
        """Append what `payload` becomes; return why it becomes nothing, if so. `spoken`: a user event stands beside."""
        kind = payload.type
        if kind == "message":
            return self._message(payload, at, time, live, spoken, out)
        if kind == "reasoning":
            return self._reasoning(payload, at, time, live, out)
        if kind.endswith("_output"):
            return self._output(payload, at, time, live, out)
        if kind.endswith("_call"):
            return self._call(payload, at, time, live, out)
        if kind in ("compaction", "compaction_summary", "context_compaction"):
            sealed = payload.encrypted_content
            if sealed is None:
                return Reason.EMPTY
            out.append(Thinking(at=at, text="", sealed=sealed, sealed_form="encrypted", time=time, live=False))
            return None
        return Reason.BOOKKEEPING if kind == "ghost_snapshot" else Reason.UNKNOWN_TYPE

    def _message(
        self, payload: Payload, at: At, time: str | None, live: bool, spoken: bool, out: list[Item]
    ) -> Reason | None:
        role = payload.role
        if role in ("developer", "system"):
            return Reason.VENDOR_TEXT
        parts = contents(payload.content)
        if any(part.type not in _MESSAGE_PARTS for part in parts):
            live = False  # The client cannot read such a message and skips its line.
        if role == "assistant":
            for number, part in enumerate(parts):
                place = At(at.file, at.line, at.record, at.part + number)
                out.append(Text(at=place, text=part.text or "", model=self.model, time=time, live=live))
            return None if parts else Reason.EMPTY
        if role != "user":
            return Reason.UNKNOWN_SHAPE
        before = len(out)
        person: list[Part] = []
        for part, kind in self._kinds(payload, parts, spoken):
            if kind is None:
                if not is_tag(part) or not any(p.type == "input_image" for p in parts):
                    person.append(_part(part))
            elif (label := kind.rsplit(".", 1)[-1]) in _NOTES:
                out.append(Note(at=at, kind=_NOTES[label], parts=(_part(part),), label=label, time=time, live=live))
            elif kind == SUMMARY_KIND:
                out.append(Note(at=at, kind=NoteKind.HARNESS, parts=(_part(part),), label=kind, time=time, live=live))
        if person:
            out.append(Message(at=at, parts=tuple(person), time=time, live=live))
        if len(out) > before:
            return None
        return Reason.VENDOR_TEXT if parts else Reason.EMPTY

    @staticmethod
    def _kinds(payload: Payload, parts: list[Content], spoken: bool) -> list[tuple[Content, str | None]]:
        """Each part with the client's word for it, or None if the person put it in."""
        known = payload.internal_chat_message_metadata_passthrough
        if known is not None and known.content_item_metadata:
            kinds = known.content_item_kinds
            found: list[tuple[Content, str | None]] = []
            for number, part in enumerate(parts):
                metadata = known.content_item_metadata
                one = metadata[number] if number < len(metadata) else None
                who = one.provenance.type if one is not None and one.provenance is not None else None
                if who == "user":
                    found.append((part, None))
                else:
                    found.append((part, kinds[number] if number < len(kinds) else who or "harness"))
            return found
        if spoken:
            return [(part, None) for part in parts]
        mark = mark_of(parts[0].text or "") if parts else None
        return [(part, mark) for part in parts]

    def _reasoning(self, payload: Payload, at: At, time: str | None, live: bool, out: list[Item]) -> Reason | None:
        texts = [part.text or "" for raw in (payload.summary, payload.content) for part in contents(raw)]
        sealed = payload.encrypted_content
        out.append(
            Thinking(
                at=at,
                text="\n".join(texts),
                sealed=sealed,
                sealed_form=None if sealed is None else "encrypted",
                model=self.model,
                time=time,
                live=live,
            )
        )
        return None

    def _call(self, payload: Payload, at: At, time: str | None, live: bool, out: list[Item]) -> Reason | None:
        kind = payload.type
        form = Form.JSON
        call = payload.call_id or payload.id or f"{kind}:{at.file}:{at.line}:{at.part}"
        name = payload.name or kind.removesuffix("_call")
        if kind == "custom_tool_call":
            form = Form.TEXT
            arguments = _string(payload.input) or ""
        elif payload.arguments is not UNSET:
            given = _string(payload.arguments)
            if given is None:
                # The client drops a call whose arguments are no string, and its output with it.
                live = False
                if len(self.dropped) < 10_000:
                    self.dropped.add(call)
            arguments = _spelling(payload.arguments) if given is None else given
        else:
            arguments = "{}" if payload.action is UNSET else _spelling(payload.action)
        out.append(
            Call(
                at=at,
                id=call,
                name=name,
                arguments=arguments,
                form=form,
                native=kind,
                namespace=payload.namespace,
                by_provider=payload.call_id is None,
                model=self.model,
                time=time,
                live=live,
            )
        )
        return None

    def _output(self, payload: Payload, at: At, time: str | None, live: bool, out: list[Item]) -> Reason | None:
        call = payload.call_id or ""
        raw = payload.output
        live = live and call not in self.dropped
        text = _string(raw)
        parts: tuple[Part, ...] = ()
        if text is not None:
            parts = (TextPart(text),)
        elif raw is not UNSET:
            listed = contents(raw)
            if listed:
                parts = tuple(_part(part) for part in listed)
            elif bytes(raw).lstrip()[:1] == b"{":
                parts = (OtherPart(form="object", json=_spelling(raw)),)
                live = False  # The client skips such a line.
        out.append(
            Result(
                at=at,
                call=call,
                parts=parts,
                outcome=Outcome.UNKNOWN,
                plain=None if raw is UNSET else text is not None,
                exit_code=self._exits.get(hash(call)),
                time=time,
                live=live,
            )
        )
        return None


def _part(part: Content) -> Part:
    if part.type == "input_image" or (part.image_url is not None and part.text is None):
        url = part.image_url or ""
        found = re.match(r"data:([^;,]{0,100});base64,", url)
        if found:
            return MediaPart(form="image", mime=found.group(1), base64=url[found.end() :])
        return MediaPart(form="image", url=url or None)
    if part.text is not None:
        return TextPart(part.text)
    return OtherPart(form=part.type, json="null")


def _string(raw: Raw | UnsetType) -> str | None:
    if raw is UNSET:
        return None
    try:
        return msgspec.json.decode(raw, type=str)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _spelling(raw: Raw | UnsetType) -> str:
    return "null" if raw is UNSET else str(raw, "utf-8", "replace")
