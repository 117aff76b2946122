"""One line that the strict decoder refuses: made decodable as the client would see it, or named by its damage.

The clients in JavaScript take half surrogate pairs and put U+FFFD for bytes that are no UTF-8; Rust takes neither. The
mending works on bytes, so that numbers keep their spelling.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import msgspec

from hhd_protocol.transcript import Reason

_ESCAPE = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.", re.S)

_any = msgspec.json.Decoder(dict[str, msgspec.Raw])


@dataclass(frozen=True, slots=True)
class Mended:
    """`line` can be decoded; `halves` and `bytes` say whether surrogates or bytes were replaced by U+FFFD."""

    line: bytes
    halves: bool = False
    bytes: bool = False


def mend(line: bytes, *, last_and_open: bool, lenient: bool = True) -> Mended | Reason:
    """Return `line` as something decodable, or the reason why there is none.

    `last_and_open`: the file ends here without a newline. `lenient`: the client replaces what is no Unicode (else such
    a line is damaged). Blank lines give EMPTY.
    """
    line = line.strip(b" \t\r\n")
    if not line:
        return Reason.EMPTY
    replaced = halves = False
    try:
        line.decode()
    except UnicodeDecodeError:
        if not lenient:
            return Reason.CUT if last_and_open else Reason.BAD_TEXT
        line = line.decode("utf-8", "replace").encode()
        replaced = True
    if b"\\u" in line:
        fixed = _ESCAPE.sub(_whole, line)
        halves = fixed != line
        if halves and not lenient:
            return Reason.BAD_JSON
        line = fixed
    try:
        msgspec.json.decode(line, type=msgspec.Raw)
        _any.decode(line)
        return Mended(line, halves, replaced)
    except RecursionError:
        return Reason.TOO_DEEP
    except (msgspec.MsgspecError, UnicodeDecodeError):
        pass
    return Reason.CUT if last_and_open else Reason.BAD_JSON


def fields(line: bytes) -> dict[str, msgspec.Raw]:
    """The fields of a mended line, undecoded."""
    return _any.decode(line)


def shaped(line: bytes, kind: type[msgspec.Struct]) -> msgspec.Struct:
    """`line` as a `kind`, with every field left out whose value is not of the field's type."""
    found: dict[str, object] = {}
    given = _any.decode(line)
    for field in msgspec.structs.fields(kind):
        if field.encode_name in given:
            raw = given[field.encode_name]
            try:
                found[field.name] = msgspec.json.decode(raw, type=field.type)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                inner = _struct_of(field.type)
                if inner is not None and bytes(raw).lstrip().startswith(b"{"):
                    found[field.name] = shaped(bytes(raw), inner)
                elif bytes(raw).lstrip().startswith(b"["):
                    kept = _parts(bytes(raw), field.type)
                    if kept is not None:
                        found[field.name] = kept
    return kind(**found)


def _parts(raw: bytes, type_: object) -> list[object] | None:
    args = getattr(type_, "__args__", ())
    for option in args or (type_,):
        if getattr(option, "__origin__", None) is list:
            element = getattr(option, "__args__", (None,))[0]
            kept: list[object] = []
            for one in msgspec.json.decode(raw, type=list[msgspec.Raw]):
                try:
                    kept.append(msgspec.json.decode(one, type=element))
                except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                    inner = _struct_of(element)
                    if inner is not None and bytes(one).lstrip().startswith(b"{"):
                        kept.append(shaped(bytes(one), inner))
            return kept
    return None


def _struct_of(type_: object) -> type[msgspec.Struct] | None:
    for option in (type_, *getattr(type_, "__args__", ())):
        if isinstance(option, type) and issubclass(option, msgspec.Struct):
            return option
    return None


def _whole(match: re.Match[bytes]) -> bytes:
    escape = match.group()
    if len(escape) == 6 and escape[2:3] in b"dD" and escape[3:4] in b"89abcdefABCDEF":
        return b"\\ufffd"
    return escape
