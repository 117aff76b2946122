"""The lines of Codex's rollouts as structs, and what each becomes; fields not named here are skipped unparsed."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec
from msgspec import UNSET, Raw, UnsetType

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
    Verdict,
)


class ItemHead(msgspec.Struct, gc=False):
    """The item of an `item_completed` event."""

    type: str = ""
    id: str | None = None
    exit_code: int | None = None
    content: Raw | UnsetType = UNSET


class Base(msgspec.Struct, gc=False):
    """Where a fork leaves its base."""

    thread_id: str | None = None
    end_ordinal_exclusive: int | None = None
    end_byte_offset: int | None = None


class Git(msgspec.Struct, gc=False):
    """The revision a session began at."""

    commit_hash: str | None = None
    branch: str | None = None


class Provenance(msgspec.Struct, gc=False):
    """Who put in a part."""

    type: str | None = None


class PartMetadata(msgspec.Struct, gc=False):
    """What is known of a part."""

    provenance: Provenance | None = None


class Passthrough(msgspec.Struct, gc=False):
    """What is known of the parts of a message."""

    content_item_kinds: list[str] = []
    content_item_metadata: list[PartMetadata | None] = []


class Payload(msgspec.Struct, gc=False):
    """The payload of a line, whichever kind it is; what is large stays undecoded until needed."""

    type: str = ""
    role: str | None = None
    content: Raw | UnsetType = UNSET
    message: str | None = None
    call_id: str | None = None
    id: str | None = None
    name: str | None = None
    arguments: Raw | UnsetType = UNSET
    input: Raw | UnsetType = UNSET
    output: Raw | UnsetType = UNSET
    action: Raw | UnsetType = UNSET
    namespace: str | None = None
    summary: Raw | UnsetType = UNSET
    encrypted_content: str | None = None
    internal_chat_message_metadata_passthrough: Passthrough | None = None
    replacement_history: Raw | UnsetType = UNSET
    num_turns: int | None = None
    exit_code: int | None = None
    item: ItemHead | None = None
    thread_name: str | None = None
    model: str | None = None
    cwd: str | None = None


class Line(msgspec.Struct, gc=False):
    """One line of a rollout."""

    timestamp: str | None = None
    ordinal: int | None = None
    type: str = ""
    payload: Payload | None = None


class Meta(msgspec.Struct, gc=False):
    """The payload of `session_meta`."""

    id: str | None = None
    timestamp: str | None = None
    cwd: str | None = None
    originator: str | None = None
    cli_version: str | None = None
    history_mode: str | None = None
    history_base: Base | None = None
    forked_from_id: str | None = None
    parent_thread_id: str | None = None
    git: Git | None = None
    source: Raw | UnsetType = UNSET


class MetaLine(msgspec.Struct, gc=False):
    """The first line of a rollout."""

    timestamp: str | None = None
    ordinal: int | None = None
    type: str = ""
    payload: Meta | None = None


class Content(msgspec.Struct, gc=False):
    """One part of a message or an output."""

    type: str = ""
    text: str | None = None
    image_url: str | None = None


_contents: msgspec.json.Decoder[list[Content]] = msgspec.json.Decoder(list[Content])
_strings: msgspec.json.Decoder[str] = msgspec.json.Decoder(str)
_payloads: msgspec.json.Decoder[Payload] = msgspec.json.Decoder(Payload)

LINES: dict[str, tuple[Verdict, Reason]] = {
    "turn_context": (Verdict.RECOGNISED, Reason.SETTINGS),
    "world_state": (Verdict.RECOGNISED, Reason.VENDOR_TEXT),
    "token_usage_record": (Verdict.RECOGNISED, Reason.BOOKKEEPING),
    "inter_agent_communication": (Verdict.RECOGNISED, Reason.BETWEEN_AGENTS),
    "inter_agent_communication_metadata": (Verdict.RECOGNISED, Reason.BETWEEN_AGENTS),
    "ghost_snapshot": (Verdict.RECOGNISED, Reason.BOOKKEEPING),
}
"""Kinds of line that never are conversation."""

_EVENTS = """
user_message agent_message agent_message_delta agent_reasoning agent_reasoning_raw_content
agent_reasoning_section_break exec_command_begin exec_command_end exec_command_output_delta patch_apply_begin
patch_apply_updated patch_apply_end task_started task_complete turn_started turn_complete turn_aborted
context_compacted item_started item_completed mcp_tool_call_begin mcp_tool_call_end web_search_begin
web_search_end view_image_tool_call error warning stream_error background_event turn_diff plan_update
entered_review_mode exited_review_mode dynamic_tool_call_request dynamic_tool_call_response
collab_agent_spawn_begin collab_agent_spawn_end collab_agent_interaction_begin collab_agent_interaction_end
collab_waiting_begin collab_waiting_end collab_close_begin collab_close_end image_generation_begin
image_generation_end hook_started hook_completed undo_started undo_completed shutdown_complete
"""
_DISPLAY = frozenset(_EVENTS.split())


def event_verdict(kind: str) -> tuple[Verdict, Reason]:
    """What an event for the screen counts as."""
    if kind in _DISPLAY:
        return Verdict.RECOGNISED, Reason.DISPLAY
    if kind in ("token_count", "thread_rolled_back"):
        return Verdict.RECOGNISED, Reason.BOOKKEEPING
    if kind == "thread_name_updated":
        return Verdict.USED, Reason.HEADER
    if kind == "thread_settings_applied":
        return Verdict.RECOGNISED, Reason.SETTINGS
    return Verdict.UNKNOWN, Reason.UNKNOWN_TYPE


_PRELUDE = re.compile(
    r"\s{0,16}(?:<(environment_context|user_instructions|skills?|skills_instructions|permissions instructions|"
    r"turn_aborted|subagent_notification|user_shell_command|collaboration_mode|apps_instructions)\b|"
    r"(# AGENTS\.md instructions))"
)
_IMAGE_OPEN = re.compile(r"\s*<image(\s[^>]*)?>\s*\Z")
_IMAGE_CLOSE = re.compile(r"\s*</image>\s*\Z")

_MESSAGE_PARTS = frozenset({"input_text", "output_text", "input_image"})

_NOTES = {
    "turn_aborted": NoteKind.ABORTED,
    "subagent_notification": NoteKind.SUBAGENT_REPORT,
    "user_shell_command": NoteKind.LOCAL_COMMAND,
}

SUMMARY_KIND = "compaction.summary"


def mark_of(text: str) -> str | None:
    """The client's own mark that a text begins with, or None."""
    found = _PRELUDE.match(text)
    return (found.group(1) or "agents_md") if found else None


def said(payload: Payload) -> str:
    """The texts of a user message without the tags around pictures, for comparing with its event."""
    return _squeeze(part.text or "" for part in contents(payload.content) if not _tag(part))


def told(payload: Payload) -> str | None:
    """The text of a user event, or None if `payload` is none."""
    if payload.type == "user_message":
        return _squeeze([payload.message or ""])
    if payload.type == "item_completed" and payload.item is not None and payload.item.type == "UserMessage":
        return _squeeze(part.text or "" for part in contents(payload.item.content))
    return None


def contents(raw: Raw | UnsetType | None) -> list[Content]:
    """The parts that `raw` holds: a list, or one text."""
    if raw is UNSET or raw is None:
        return []
    try:
        return _contents.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return [Content(type="text", text=_strings.decode(raw))]
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return []


def _squeeze(texts: Iterable[str]) -> str:
    return "".join("".join(texts).split())


def _tag(part: Content) -> bool:
    text = part.text or ""
    return bool(_IMAGE_OPEN.match(text) or _IMAGE_CLOSE.match(text))


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
                if not _tag(part) or not any(p.type == "input_image" for p in parts):
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


def standins(raw: Raw) -> list[Payload | None]:
    """The items of a replacement history; None for one that is no item."""
    found: list[Payload | None] = []
    try:
        listed = msgspec.json.decode(raw, type=list[Raw])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return []
    for one in listed:
        try:
            found.append(_payloads.decode(one))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            found.append(None)
    return found


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
        return _strings.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _spelling(raw: Raw | UnsetType) -> str:
    return "null" if raw is UNSET else str(raw, "utf-8", "replace")
