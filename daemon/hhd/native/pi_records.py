"""The records of Pi's sessions, and the items that they are."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, Raw, UnsetType

from hhd_protocol.transcript import (
    At,
    Call,
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
    Shell,
    Text,
    TextPart,
    Thinking,
    Verdict,
)


class Piece(msgspec.Struct, gc=False):
    """One block of a message."""

    type: str = ""
    text: str | None = None
    thinking: str | None = None
    thinkingSignature: str | None = None
    redacted: bool = False
    id: str | None = None
    name: str | None = None
    arguments: Raw | UnsetType = UNSET
    data: str | None = None
    mimeType: str | None = None


class Body(msgspec.Struct, gc=False):
    """The message of an entry."""

    role: str = ""
    content: str | list[Piece] | None = None
    model: str | None = None
    stopReason: str | None = None
    usage: Raw | UnsetType = UNSET
    toolCallId: str | None = None
    toolName: str | None = None
    isError: bool = False
    command: str | None = None
    output: str | None = None
    exitCode: int | None = None
    cancelled: bool = False
    truncated: bool = False
    fullOutputPath: str | None = None
    excludeFromContext: bool = False
    customType: str | None = None


class Entry(msgspec.Struct, gc=False):
    """One line: the header or an entry."""

    type: str = ""
    id: str | None = None
    parentId: str | None = None
    timestamp: str | None = None
    message: Body | None = None
    summary: str | None = None
    firstKeptEntryId: str | None = None
    firstKeptEntryIndex: int | None = None
    tokensBefore: int | None = None
    fromId: str | None = None
    customType: str | None = None
    content: str | list[Piece] | None = None
    name: str | None = None
    version: int | None = None
    cwd: str | None = None
    parentSession: str | None = None
    modelId: str | None = None


KNOWN: dict[str, tuple[Verdict, Reason]] = {
    "model_change": (Verdict.RECOGNISED, Reason.SETTINGS),
    "thinking_level_change": (Verdict.RECOGNISED, Reason.SETTINGS),
    "custom": (Verdict.RECOGNISED, Reason.BOOKKEEPING),
    "label": (Verdict.RECOGNISED, Reason.BOOKKEEPING),
    "session_info": (Verdict.USED, Reason.HEADER),
}


def message(entry: Entry, body: Body, at: At, live: bool, out: list[Item]) -> Reason | None:
    """Append the items of the message `body` of `entry`; return why there are none of its kind."""
    time, role = entry.timestamp, body.role
    if role == "assistant":
        _assistant(body, at, time, live, out)
    elif role == "toolResult":
        out.append(
            Result(
                at=at,
                call=body.toolCallId or "",
                parts=parts_of(body.content),
                outcome=Outcome.ERROR if body.isError else Outcome.OK,
                plain=None if body.content is None else isinstance(body.content, str),
                name=body.toolName,
                time=time,
                live=live,
            )
        )
    elif role == "user":
        out.append(Message(at=at, parts=parts_of(body.content), time=time, live=live))
    elif role == "bashExecution":
        out.append(
            Shell(
                at=at,
                command=body.command or "",
                output=body.output or "",
                exit_code=body.exitCode,
                cancelled=body.cancelled,
                truncated=body.truncated,
                output_path=body.fullOutputPath,
                time=time,
                live=live and not body.excludeFromContext,
            )
        )
    elif role == "system":
        return Reason.VENDOR_TEXT
    elif role in ("custom", "hookMessage"):
        parts = parts_of(body.content)
        out.append(Note(at=at, kind=NoteKind.CUSTOM, parts=parts, label=body.customType, time=time, live=live))
    else:
        return Reason.UNKNOWN_SHAPE
    return None


def _assistant(body: Body, at: At, time: str | None, live: bool, out: list[Item]) -> None:
    # The client drops a reply that ended in an error, with its calls; their results stay.
    live = live and body.stopReason not in ("error", "aborted")
    reply, model = at.record or str(at.line), body.model
    if isinstance(body.content, str):
        out.append(Text(at=at, text=body.content, reply=reply, model=model, time=time, live=live))
        return
    for number, piece in enumerate(body.content or ()):
        place = At(at.file, at.line, at.record, number)
        if piece.type == "text":
            out.append(Text(at=place, text=piece.text or "", reply=reply, model=model, time=time, live=live))
        elif piece.type == "thinking":
            sealed = piece.thinkingSignature or None
            form = None if sealed is None else "redacted" if piece.redacted else "signature"
            out.append(
                Thinking(
                    at=place,
                    text=piece.thinking or "",
                    sealed=sealed,
                    sealed_form=form,
                    reply=reply,
                    model=model,
                    time=time,
                    live=live,
                )
            )
        elif piece.type == "toolCall":
            out.append(
                Call(
                    at=place,
                    id=piece.id or "",
                    name=piece.name or "",
                    arguments="{}" if piece.arguments is UNSET else str(piece.arguments, "utf-8", "replace"),
                    native="toolCall",
                    reply=reply,
                    model=model,
                    time=time,
                    live=live,
                )
            )
        else:
            part = _part(piece)
            out.append(Note(at=place, kind=NoteKind.CUSTOM, parts=(part,), label=piece.type, time=time, live=live))


def name(entry: Entry) -> str:
    """What the account calls it."""
    return f"message/{entry.message.role}" if entry.type == "message" and entry.message else entry.type


def parts_of(content: str | list[Piece] | None) -> tuple[Part, ...]:
    """The parts of a message's content."""
    if content is None:
        return ()
    if isinstance(content, str):
        return (TextPart(content),)
    return tuple(_part(piece) for piece in content)


def _part(piece: Piece) -> Part:
    if piece.type == "text":
        return TextPart(piece.text or "")
    if piece.type == "image":
        return MediaPart(form="image", mime=piece.mimeType, base64=piece.data)
    return OtherPart(form=piece.type, json="null")
