"""Reads lines of a text file, as they are."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import Annotated

import msgspec

from hhd.effects.cancel import Cancel, Interrupted
from hhd.effects.limits import FILE_BYTES_MAX, OUTPUT_BYTES_MAX, READ_LINES_DEFAULT, READ_SCAN_BYTES_MAX, SNIFF_BYTES
from hhd.effects.tools import textfile
from hhd.effects.tools.tool import Context, Input, Reply, Tool, by_place, failed

_BLOCK_BYTES = 1024 * 1024
_NOTE_BYTES = 200
"""Kept free for the line in brackets."""

Positive = Annotated[int, msgspec.Meta(ge=1, le=10**15)]


class ReadInput(Input, frozen=True, kw_only=True):
    """`offset`: the first line, from 1; `limit`: how many."""

    path: str
    offset: Positive | None = None
    limit: Positive | None = None


def _act(asked: ReadInput, context: Context) -> Reply:
    place = context.place(asked.path)
    found = context.workspace.stat(place)
    if found is not None and stat.S_ISDIR(found.st_mode):
        return failed(f"{place} is a folder; its files: glob with the pattern '*' and this path.")
    fd = context.workspace.open_file(place)
    try:
        begin = os.pread(fd, SNIFF_BYTES, 0)
        if kind := textfile.kind_if_binary(begin):
            return failed(f"{place} is {kind} of {os.fstat(fd).st_size} bytes; only text can be read.")
        blocks = _blocks(fd, context.cancel)
        if codec := textfile.wide(begin):
            raw = os.pread(fd, FILE_BYTES_MAX + 1, 0)
            if len(raw) > FILE_BYTES_MAX:
                return failed(f"{place} is {codec.upper()} text of more than {FILE_BYTES_MAX} bytes and not read.")
            blocks = iter([raw.decode(codec, "replace").encode()])
        return _lines(blocks, first=asked.offset or 1, count=asked.limit or READ_LINES_DEFAULT)
    finally:
        os.close(fd)


READ: Tool[ReadInput] = Tool(
    name="read", input=ReadInput, repeatable=True, changes=False, subject=by_place("read"), act=_act
)  # fmt: skip


def _blocks(fd: int, cancel: Cancel) -> Iterator[bytes]:
    while block := os.read(fd, _BLOCK_BYTES):
        if cancel.is_set:
            raise Interrupted
        yield block


def _lines(blocks: Iterator[bytes], *, first: int, count: int) -> Reply:
    """Lines `first` to `first + count - 1`, fewer if they would not fit, and a note where more follow.

    A line ends with LF; memory stays bounded whatever the length of lines and file.
    """
    out, number, scanned = bytearray(), 1, 0
    room = OUTPUT_BYTES_MAX - _NOTE_BYTES
    for block in blocks:
        scanned += len(block)
        begin = 0
        while begin < len(block):
            if number < first:
                ends = block.count(b"\n", begin)
                if number + ends < first:
                    number, begin = number + ends, len(block)
                    continue
            end = block.find(b"\n", begin) + 1 or len(block)
            if number >= first + count or len(out) > room:
                return _cut(out, number, first, room)
            if number >= first:
                out += block[begin : min(end, begin + room + 1)]
            number += block[end - 1] == 0x0A
            begin = end
        if number < first and scanned >= READ_SCAN_BYTES_MAX:
            return failed(f"Line {first} is further than {READ_SCAN_BYTES_MAX} bytes into the file, which is not read.")
    if len(out) > room:
        return _cut(out, number, first, room)
    if first > 1 and not out:
        return failed(f"The file has fewer than {first} lines.")
    return Reply(output=textfile.decode(bytes(out)) if out else "[the file is empty]")


def _cut(out: bytearray, number: int, first: int, room: int) -> Reply:
    """`out` up to the last whole line that fits; a single line that does not is cut itself."""
    if len(out) <= room:
        return Reply(output=f"{textfile.decode(bytes(out))}[more lines follow, from {number}]")
    whole = out.rfind(b"\n", 0, room) + 1
    if whole:
        following = first + out.count(b"\n", 0, whole)
        return Reply(output=f"{textfile.decode(bytes(out[:whole]))}[more lines follow, from {following}]")
    raw = bytes(out[:room])
    text = raw.decode("utf-8", "ignore") if textfile.is_utf8(raw) else textfile.decode(raw)
    return Reply(output=f"{text}\n[line {first} is longer than can be shown; the next line is {first + 1}]")
