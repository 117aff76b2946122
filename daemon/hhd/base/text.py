"""Text of unknown origin, made safe to print: control and direction-changing characters become visible."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator

_KEPT = frozenset("\n\t")
_HIDDEN = frozenset({"Cc", "Cf", "Cn", "Cs", "Co", "Zl", "Zp"})


def visible(text: str, *, one_line: bool = False) -> str:
    """Return `text` with each control, format or surrogate character as an escape like `\\x1b` or `\\u202e`.

    Newline and tab stay unless `one_line`. Zero-width joiners inside emoji are escaped too: plain beats pretty.
    """
    if text.isascii() and text.isprintable():
        return text
    return text.translate(_ONE_LINE if one_line else _LINES)


def short(text: str, chars: int) -> str:
    """Return `text` like `visible` on one line, cut to `chars` of its characters; what was cut ends in an ellipsis."""
    return visible(text if len(text) <= chars else f"{text[: chars - 1]}…", one_line=True)


def visible_bytes(raw: bytes) -> str:
    """Return `raw`, as far as it is UTF-8, like `visible`; other bytes become `\\xNN`."""
    return visible(raw.decode("utf-8", "surrogateescape"))


def visible_parts(parts: Iterable[bytes]) -> Iterator[str]:
    """Yield `parts` like `visible_bytes`; a character that the end of a part cuts is shown with the next one."""
    held = b""
    for part in parts:
        raw = held + part
        whole = len(raw) - _unfinished(raw)
        held = raw[whole:]
        yield visible_bytes(raw[:whole])
    yield visible_bytes(held)


def _unfinished(raw: bytes) -> int:
    """How many bytes at the end of `raw` may be the beginning of a UTF-8 character."""
    for back in range(1, min(3, len(raw)) + 1):
        byte = raw[-back]
        if byte >= 0xC0:
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return back if length > back else 0
        if byte < 0x80:
            return 0
    return 0


class _Shown(dict[int, int | str]):
    """What each character is shown as, found out once each: a conversation has megabytes and few characters."""

    def __init__(self, *, one_line: bool) -> None:
        self._one_line = one_line

    def __missing__(self, code: int) -> int | str:
        found = self[code] = _shown(chr(code), self._one_line)
        return found


def _shown(char: str, one_line: bool) -> str:
    if char in _KEPT and not one_line:
        return char
    if unicodedata.category(char) not in _HIDDEN:
        return char
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


_LINES, _ONE_LINE = _Shown(one_line=False), _Shown(one_line=True)
