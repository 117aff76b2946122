"""The lines of Codex's rollouts as structs, and what is known of events; fields not named here are skipped unparsed."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec
from msgspec import UNSET, Raw, UnsetType

from hhd_protocol.transcript import (
    Reason,
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

SUMMARY_KIND = "compaction.summary"


def mark_of(text: str) -> str | None:
    """The client's own mark that a text begins with, or None."""
    found = _PRELUDE.match(text)
    return (found.group(1) or "agents_md") if found else None


def said(payload: Payload) -> str:
    """The texts of a user message without the tags around pictures, for comparing with its event."""
    return _squeeze(part.text or "" for part in contents(payload.content) if not is_tag(part))


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


def is_tag(part: Content) -> bool:
    """Whether a part is a tag around a picture."""
    text = part.text or ""
    return bool(_IMAGE_OPEN.match(text) or _IMAGE_CLOSE.match(text))


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
