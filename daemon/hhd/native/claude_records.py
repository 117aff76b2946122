"""The records of Claude Code as structs, and what of other kinds is known; fields not named here are left unparsed."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, Raw, UnsetType

from hhd_protocol.transcript import (
    Reason,
    Verdict,
)


class Preserved(msgspec.Struct, gc=False):
    """Older records that a compaction keeps after its summary."""

    anchorUuid: str | None = None
    uuids: list[str] = []


class CompactMetadata(msgspec.Struct, gc=False):
    """How and why a compaction was made."""

    trigger: str | None = None
    preTokens: int | None = None
    preservedMessages: Preserved | None = None


class Head(msgspec.Struct, gc=False):
    """What a record needs for its place in the conversation."""

    type: str = ""
    uuid: str | None = None
    parentUuid: str | None = None
    isSidechain: bool = False
    subtype: str | None = None
    cwd: str | None = None
    version: str | None = None
    leafUuid: str | None = None
    isCompactSummary: bool = False
    agentId: str | None = None
    sourceToolAssistantUUID: str | None = None
    operation: str | None = None
    customTitle: str | None = None
    aiTitle: str | None = None
    summary: str | None = None
    compactMetadata: CompactMetadata | None = None
    logicalParentUuid: str | None = None


class MediaSource(msgspec.Struct, gc=False):
    """Where the bytes of a picture or a document are."""

    type: str = ""
    media_type: str | None = None
    data: str | None = None
    url: str | None = None


class Piece(msgspec.Struct, gc=False):
    """One block of a message or of a tool result."""

    type: str = ""
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    id: str | None = None
    name: str | None = None
    input: Raw | UnsetType = UNSET
    tool_use_id: str | None = None
    content: str | list[Piece] | None = None
    is_error: bool | None = None
    source: MediaSource | None = None
    title: str | None = None


class Body(msgspec.Struct, gc=False):
    """The message of a record."""

    content: str | list[Piece] | None = None
    id: str | None = None
    model: str | None = None


class Origin(msgspec.Struct, gc=False):
    """Who began a user record."""

    kind: str | None = None


class Attachment(msgspec.Struct, gc=False):
    """Text the client adds for the model; only its kind is looked at."""

    type: str = ""


class Record(Head, gc=False):
    """A whole record."""

    timestamp: str | None = None
    message: Body | None = None
    isMeta: bool = False
    isApiErrorMessage: bool = False
    origin: Origin | None = None
    attachment: Attachment | None = None
    gitBranch: str | None = None
    content: str | None = None


LOOSE: dict[str, tuple[Verdict, Reason]] = {
    "last-prompt": (Verdict.RECOGNISED, Reason.BOOKKEEPING),
    "mode": (Verdict.RECOGNISED, Reason.SETTINGS),
    "permission-mode": (Verdict.RECOGNISED, Reason.SETTINGS),
    "custom-title": (Verdict.USED, Reason.HEADER),
    "ai-title": (Verdict.USED, Reason.HEADER),
    "summary": (Verdict.USED, Reason.HEADER),
    "agent-name": (Verdict.RECOGNISED, Reason.BOOKKEEPING),
    "tag": (Verdict.RECOGNISED, Reason.BOOKKEEPING),
    "tools-used": (Verdict.RECOGNISED, Reason.BOOKKEEPING),
    "cost-state": (Verdict.RECOGNISED, Reason.BOOKKEEPING),
    "atis-latch": (Verdict.RECOGNISED, Reason.BOOKKEEPING),
    "file-history-snapshot": (Verdict.RECOGNISED, Reason.BOOKKEEPING),
    "file-history-delta": (Verdict.RECOGNISED, Reason.BOOKKEEPING),
    "api-request-shape": (Verdict.RECOGNISED, Reason.VENDOR_TEXT),
    "api-request-blob": (Verdict.RECOGNISED, Reason.VENDOR_TEXT),
    "api-request": (Verdict.RECOGNISED, Reason.VENDOR_TEXT),
    "progress": (Verdict.RECOGNISED, Reason.DISPLAY),
}
"""Records that never are conversation; any other unknown type is counted as unknown."""
