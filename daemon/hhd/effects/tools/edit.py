"""Replaces one exact text in a file, or every occurrence of it, in one durable step."""

from __future__ import annotations

import difflib
import os

from hhd.effects.confine import Inside, PathRefused, Workspace
from hhd.effects.limits import FILE_BYTES_MAX, SNIFF_BYTES
from hhd.effects.tools import textfile
from hhd.effects.tools.gitplace import refuse_gits_own
from hhd.effects.tools.tool import Context, Input, Reply, Tool, by_place, failed

_NEAR_FILE_BYTES_MAX = 256 * 1024
"""Looking for the line that was probably meant compares each line; in larger files that takes too long."""

_SHOWN_LINES_MAX = 5


class EditInput(Input, frozen=True, kw_only=True):
    """`old` must be in the file exactly once, or at least once with `replace_all`."""

    path: str
    old: str
    new: str
    replace_all: bool | None = None


def _act(asked: EditInput, context: Context) -> Reply:
    if not asked.old:
        return failed("The text to find is empty; to create a file use write.")
    if asked.old == asked.new:
        return failed("The old and the new text are the same; nothing was changed.")
    place = context.place(asked.path)
    refuse_gits_own(place)
    seen = context.workspace.stat(place)
    before = whole(context.workspace, place)
    if textfile.kind_if_binary(before[:SNIFF_BYTES]):
        return failed(f"{place} is not a text file; nothing was changed.")
    old, new, count = _spelled(before, asked.old, asked.new)
    if count == 0:
        return failed(_not_found(place, before, asked.old))
    if count > 1 and not asked.replace_all:
        return failed(_ambiguous(place, before, old, count))
    after = before.replace(old, new)
    if len(after) > FILE_BYTES_MAX:
        return failed(f"{place} would pass {FILE_BYTES_MAX} bytes; nothing was changed.")
    context.workspace.replace_file(place, after, seen=seen)
    return Reply(output=f"Replaced {count} occurrence{'' if count == 1 else 's'} in {place}.")


EDIT: Tool[EditInput] = Tool(
    name="edit", input=EditInput, repeatable=False, changes=True, subject=by_place("edit", refuse_gits_own), act=_act
)  # fmt: skip


def whole(workspace: Workspace, place: Inside) -> bytes:
    """The content of the file at `place`; raises PathRefused past FILE_BYTES_MAX, and as `open_file` does."""
    fd = workspace.open_file(place)
    try:
        if os.fstat(fd).st_size > FILE_BYTES_MAX:
            raise PathRefused(f"{place} passes {FILE_BYTES_MAX} bytes, which is not edited whole.")
        pieces: list[bytes] = []
        while piece := os.read(fd, 1024 * 1024):
            pieces.append(piece)
            if sum(map(len, pieces)) > FILE_BYTES_MAX:
                raise PathRefused(f"{place} grows while it is read.")
        return b"".join(pieces)
    finally:
        os.close(fd)


def _spelled(content: bytes, old: str, new: str) -> tuple[bytes, bytes, int]:
    """`old` and `new` as bytes in the file's own encoding and line ends, and how often `old` is there.

    All else in the file stays as it is, byte for byte. A file with CRLF only gets CRLF only.
    """
    for codec in _codecs(content):
        for ends in _line_ends(content, codec):
            try:
                pair = tuple(_with_ends(text, ends).encode(codec) for text in (old, new))
            except UnicodeEncodeError:
                continue
            if count := _count(content, pair[0], codec):
                return pair[0], pair[1], count
    return b"", b"", 0


def _codecs(content: bytes) -> list[str]:
    if content.startswith((b"\xff\xfe\0\0", b"\0\0\xfe\xff")):
        return ["utf-32-le" if content[0] == 0xFF else "utf-32-be"]
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return ["utf-16-le" if content[0] == 0xFF else "utf-16-be"]
    return ["utf-8"] if textfile.is_utf8(content) else ["utf-8", "latin-1"]


def _line_ends(content: bytes, codec: str) -> list[str]:
    crlf, lf = "\r\n".encode(codec), "\n".encode(codec)
    pairs = content.count(crlf)
    if not pairs:
        return [""]
    return ["\r\n"] if pairs == content.count(lf) else ["", "\r\n"]


def _with_ends(text: str, ends: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", ends) if ends else text


def _count(content: bytes, old: bytes, codec: str) -> int:
    """Occurrences of `old`; in codecs of several bytes a character, only where a character begins."""
    width = {"utf-16": 2, "utf-32": 4}.get(codec[:6], 1)
    if width == 1:
        return content.count(old)
    at, count = content.find(old), 0
    while at >= 0:
        if at % width:
            raise PathRefused("The text is found across the borders of characters; nothing was changed.")
        count, at = count + 1, content.find(old, at + len(old))
    return count


def _not_found(place: Inside, content: bytes, old: str) -> str:
    said = f"The text to replace is not in {place}; nothing was changed."
    if len(content) > _NEAR_FILE_BYTES_MAX:
        return said
    text = textfile.decode(content)
    squeezed = " ".join(old.split())
    if squeezed and squeezed in " ".join(text.split()):
        return f"{said} It is there with other blanks or line ends: read the lines again and copy them exactly."
    first = next((line for line in old.splitlines() if line.strip()), "")
    lines = text.splitlines()
    near = difflib.get_close_matches(first[:200], [line[:200] for line in lines], n=1, cutoff=0.7) if first else []
    if not near:
        return said
    number = next(index for index, line in enumerate(lines, 1) if line[:200] == near[0])
    return f"{said} The nearest line is line {number}: {near[0].strip()}"


def _ambiguous(place: Inside, content: bytes, old: bytes, count: int) -> str:
    numbers: list[str] = []
    at = content.find(old)
    while at >= 0 and len(numbers) < _SHOWN_LINES_MAX:
        numbers.append(str(content.count(b"\n", 0, at) + 1))
        at = content.find(old, at + len(old))
    more = ", ..." if count > len(numbers) else ""
    return (
        f"The text to replace is {count} times in {place} (lines {', '.join(numbers)}{more}); nothing was changed. "
        "Give more of its surroundings, or set replace_all."
    )
