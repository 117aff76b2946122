"""The items that the records of Claude Code are."""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec
from msgspec import UNSET, Raw

from hhd.native.claude_records import Piece, Record
from hhd.native.mend import fields
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
    Result,
    Text,
    TextPart,
    Thinking,
)

_PERSON = frozenset({None, "human", "user"})

_LABEL = re.compile(
    r"\s{0,16}<(command-name|command-message|command-args|command-contents|local-command-stdout|local-command-stderr|"
    r"local-command-caveat|bash-input|bash-stdout|bash-stderr|system-reminder|task-notification|teammate-message)\b"
)
_MARKS = frozenset("<[ \n\t\r")
"""What a text begins with that may be a mark of the client."""

_INTERRUPTED = "[Request interrupted by user"

_SPILL = re.compile(r"<persisted-output>[^\n]*\n.*?saved to:\s*(.+?)\s*(?:\n|$)", re.S)


def label_of(text: str) -> tuple[NoteKind, str] | None:
    """What a text in a user record is if the person did not write it as a request, by the client's own marks."""
    if text.startswith(_INTERRUPTED):
        return NoteKind.ABORTED, "interrupted"
    found = _LABEL.match(text)
    if found is None:
        return None
    name = found.group(1)
    if name == "system-reminder":
        return (NoteKind.HARNESS, name) if text.rstrip().endswith("</system-reminder>") else None
    if name in ("task-notification", "teammate-message"):
        return NoteKind.SUBAGENT_REPORT, name
    return NoteKind.LOCAL_COMMAND, name


def _pieces(content: str | list[Piece] | None) -> list[Piece]:
    return content if isinstance(content, list) else []


class Translator:
    """Turns records into items.

    `raw_line` gives the bytes of a line by its number, for the rare parts that are kept as JSON. `shift` is added to
    the numbers of lines in provenance.
    """

    def __init__(
        self, side_files: frozenset[str], stem: str, shift: int, raw_line: Callable[[int], bytes | None]
    ) -> None:
        self._shift = shift
        self._raw_line = raw_line
        self._side_files = side_files
        self._stem = stem

    def assistant(self, rec: Record, line: int, live: bool, out: list[Item]) -> None:
        """Append the items of an assistant record."""
        body = rec.message
        if body is None:
            return
        content, reply, model = body.content, body.id, body.model
        time = rec.timestamp
        if rec.isApiErrorMessage or model == "<synthetic>":
            kind = NoteKind.API_ERROR if rec.isApiErrorMessage else NoteKind.HARNESS
            parts = self._parts(content, line, ())
            if parts:
                at = At(0, line + self._shift, rec.uuid)
                label = "api-error" if rec.isApiErrorMessage else "synthetic"
                out.append(Note(at=at, kind=kind, parts=parts, label=label, time=time, live=live))
            return
        if type(content) is str:
            out.append(
                Text(
                    at=At(0, line + self._shift, rec.uuid), text=content, reply=reply, model=model, time=time, live=live
                )
            )
            return
        place = line + self._shift
        own = rec.uuid
        for number, piece in enumerate(_pieces(content)):
            at = At(0, place, own, number)
            kind_ = piece.type
            if kind_ == "text":
                text = piece.text or ""
                out.append(Text(at=at, text=text, reply=reply, model=model, time=time, live=live))
            elif kind_ == "tool_use":
                given = piece.input
                out.append(
                    Call(
                        at=at,
                        id=piece.id or "",
                        name=piece.name or "",
                        arguments="{}" if given is UNSET else str(given, "utf-8", "replace"),
                        native="tool_use",
                        reply=reply,
                        model=model,
                        time=time,
                        live=live,
                    )
                )
            elif kind_ == "thinking":
                sealed = piece.signature or None
                out.append(
                    Thinking(
                        at=at,
                        text=piece.thinking or "",
                        sealed=sealed,
                        sealed_form="signature" if sealed else None,
                        reply=reply,
                        model=model,
                        time=time,
                        live=live,
                    )
                )
            elif kind_ == "redacted_thinking":
                sealed = piece.data or ""
                out.append(
                    Thinking(
                        at=at,
                        text="",
                        sealed=sealed,
                        sealed_form="redacted",
                        reply=reply,
                        model=model,
                        time=time,
                        live=live,
                    )
                )
            elif kind_.endswith("_tool_use") and piece.id is not None:
                given = piece.input
                out.append(
                    Call(
                        at=at,
                        id=piece.id,
                        name=piece.name or "",
                        arguments="{}" if given is UNSET else str(given, "utf-8", "replace"),
                        native=kind_,
                        by_provider=True,
                        reply=reply,
                        model=model,
                        time=time,
                        live=live,
                    )
                )
            elif kind_.endswith("_tool_result"):
                json = self._raw_piece(line, (number,))
                part = OtherPart(form=kind_, json=json)
                call = piece.tool_use_id or ""
                out.append(Result(at=at, call=call, parts=(part,), plain=False, time=time, live=live))
            else:
                json = self._raw_piece(line, (number,))
                part = OtherPart(form=kind_, json=json)
                out.append(Note(at=at, kind=NoteKind.CUSTOM, parts=(part,), label=kind_, time=time, live=live))

    def user(self, rec: Record, line: int, live: bool, out: list[Item]) -> None:
        """Append the items of a user record."""
        body = rec.message
        if body is None:
            return
        content = body.content
        time = rec.timestamp
        place = line + self._shift
        own = rec.uuid
        given = self._not_the_person(rec) if rec.isMeta or rec.isCompactSummary or rec.origin is not None else None
        if type(content) is str:
            label = given or (label_of(content) if content[:1] in _MARKS else None)
            said = (TextPart(content),)
            if label is None:
                out.append(Message(at=At(0, place, own), parts=said, time=time, live=live))
            else:
                at = At(0, place, own)
                out.append(Note(at=at, kind=label[0], parts=said, label=label[1], time=time, live=live))
            return
        spoken: list[Part] = []
        first = 0
        for number, piece in enumerate(_pieces(content)):
            if piece.type == "tool_result":
                out.append(self._result(piece, At(0, place, own, number), time, live, line))
                continue
            label = given or (label_of(piece.text) if piece.type == "text" and piece.text else None)
            part = self._part(piece, line, (number,))
            if label is not None:
                at = At(0, line + self._shift, rec.uuid, number)
                out.append(Note(at=at, kind=label[0], parts=(part,), label=label[1], time=time, live=live))
            else:
                if not spoken:
                    first = number
                spoken.append(part)
        if spoken:
            out.append(
                Message(at=At(0, line + self._shift, rec.uuid, first), parts=tuple(spoken), time=time, live=live)
            )

    @staticmethod
    def _not_the_person(rec: Record) -> tuple[NoteKind, str] | None:
        if rec.origin is not None and rec.origin.kind not in _PERSON:
            kind = rec.origin.kind or ""
            return (NoteKind.SUBAGENT_REPORT if "task" in kind else NoteKind.HARNESS), kind
        if not rec.isMeta and not rec.isCompactSummary:
            return None
        return NoteKind.HARNESS, "summary" if rec.isCompactSummary else "meta"

    def summary(self, rec: Record) -> str:
        """The text of a compaction's summary."""
        content = rec.message.content if rec.message else None
        if isinstance(content, str):
            return content
        return "\n".join(piece.text or "" for piece in _pieces(content) if piece.type == "text")

    def _result(self, piece: Piece, at: At, time: str | None, live: bool, line: int) -> Result:
        content = piece.content
        spilled = None
        if type(content) is str:
            parts: tuple[Part, ...] = (TextPart(content),)
            if content.startswith("<persisted-output>"):
                spilled = self._spilled(content)
        else:
            parts = self._parts(content, line, (at.part,))
        return Result(
            at=at,
            call=piece.tool_use_id or "",
            parts=parts,
            outcome=Outcome.ERROR if piece.is_error else Outcome.OK,
            plain=None if content is None else type(content) is str,
            spilled=spilled,
            time=time,
            live=live,
        )

    def _spilled(self, content: str) -> str | None:
        found = _SPILL.match(content[:4096])
        if found is None:
            return None
        name = re.split(r"[/\\]", found.group(1))[-1]
        beside = f"{self._stem}/tool-results/{name}"
        return beside if beside in self._side_files else None

    def _parts(self, content: str | list[Piece] | None, line: int, path: tuple[int, ...]) -> tuple[Part, ...]:
        if content is None:
            return ()
        if isinstance(content, str):
            return (TextPart(content),)
        return tuple(self._part(piece, line, (*path, number)) for number, piece in enumerate(content))

    def _part(self, piece: Piece, line: int, path: tuple[int, ...]) -> Part:
        if piece.type == "text":
            return TextPart(piece.text or "")
        source = piece.source
        if source is not None and piece.type in ("image", "document"):
            if source.type == "base64" and source.data is not None:
                return MediaPart(form=piece.type, mime=source.media_type, base64=source.data, name=piece.title)
            if source.type == "url" and source.url is not None:
                return MediaPart(form=piece.type, mime=source.media_type, url=source.url, name=piece.title)
        return OtherPart(form=piece.type, json=self._raw_piece(line, path))

    def _raw_piece(self, number: int, path: tuple[int, ...]) -> str:
        """The JSON of the block at `path` in the message of a line; "null" if it cannot be had."""
        line = self._raw_line(number)
        if line is None:
            return "null"
        try:
            raw = fields(bytes(fields(line)["message"]))["content"]
            for step, index in enumerate(path):
                raw = msgspec.json.decode(raw, type=list[Raw])[index]
                if step < len(path) - 1:
                    raw = fields(bytes(raw))["content"]
            return str(raw, "utf-8", "replace")
        except (KeyError, IndexError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return "null"
