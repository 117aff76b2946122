"""Well-formed hostile capsules: every digest is right, and something in them lies."""

from __future__ import annotations

import copy
import struct
from collections.abc import Callable, Iterator
from typing import Any

import zstandard
from tests.protocol import forge

from hhd_protocol import codec, journal
from hhd_protocol.packed import pack

Header = dict[int, Any]
Change = Callable[[Header, list[bytes]], None]

MODULE, JOURNAL, TRANSCRIPT, NUMBERS, PAGES = 0, 1, 2, 3, 4
"""Where the pieces of `forge.at_effect()` are."""


def cases(base: bytes | None = None) -> Iterator[tuple[str, bytes]]:
    """Each lie with its file; `base` is a capsule like `forge.at_effect()`: one transcript chunk, no history, pages."""
    raw = forge.whole(forge.at_effect()) if base is None else base
    for name, change in CHANGES.items():
        header, pieces = forge.taken_apart(raw)
        header, pieces = copy.deepcopy(header), list(pieces)
        change(header, pieces)
        yield name, forge.put_together(header, pieces)
    header, pieces = forge.taken_apart(raw)
    yield "format version 2", forge.put_together(header, pieces, version=2)
    yield "format version 0", forge.put_together(header, pieces, version=0)
    yield "a flag that is not known", forge.put_together(header, pieces, flags=4)
    yield "sealed", forge.put_together(header, pieces, flags=1)
    yield "a header that is not canonical", forge.sealed(b"\xbf" + codec.encode(header)[1:] + b"\xff", pieces)
    yield "a header of nothing", forge.sealed(b"", pieces)
    yield "a header that is a list", forge.sealed(codec.encode([1]), pieces)
    yield "a header of nesting", forge.sealed(b"\x81" * 100_000 + b"\x00", pieces)
    yield "a header of a huge array", forge.sealed(b"\x9b" + b"\x7f" * 8, pieces)
    yield "another content digest", forge.sealed(codec.encode({**header, 19: bytes(32)}), pieces)
    yield "a header that is said to be longer than the file", _long_header(forge.put_together(header, pieces))


def set_at(*way: int | str, to: Any) -> Change:
    def change(header: Header, pieces: list[bytes]) -> None:
        place: Any = header
        for key in way[:-1]:
            place = place[key]
        place[way[-1]] = to

    return change


def piece(number: int, raw: bytes, *, level: int = 3) -> Change:
    """Put `raw` in the place of a piece, described as it is."""

    def change(header: Header, pieces: list[bytes]) -> None:
        made = pack(raw, level)
        pieces[number] = bytes(made.stored)
        _describe(header, number, made.value())

    return change


def frame(number: int, stored: Callable[[bytes], bytes]) -> Change:
    """Put another frame in the place of a piece; what the header says is inside stays."""

    def change(header: Header, pieces: list[bytes]) -> None:
        pieces[number] = stored(pieces[number])
        said = {JOURNAL: header[7], TRANSCRIPT: header[9][0], NUMBERS: header[4][4], PAGES: header[4][5][0]}.get(number)
        if said is None:
            header[16] = len(pieces[number])
        else:
            said[0] = len(pieces[number])

    return change


def book(**changed: Any) -> Change:
    """A journal whose live entry has other fields (`f3=2`: field 3 is 2)."""
    entry = {0: 0, 1: "tool", 2: b"first", 3: 1, 4: 0, 5: None, 6: None, 7: False}
    entry.update({int(key[1:]): value for key, value in changed.items()})
    return piece(JOURNAL, codec.encode({0: 0, 1: entry}))  # type: ignore[dict-item]


def both(*changes: Change) -> Change:
    def change(header: Header, pieces: list[bytes]) -> None:
        for each in changes:
            each(header, pieces)

    return change


def without(*way: int) -> Change:
    def change(header: Header, pieces: list[bytes]) -> None:
        place: Any = header
        for key in way[:-1]:
            place = place[key]
        del place[way[-1]]

    return change


def numbers(*chosen: int) -> Change:
    return piece(NUMBERS, struct.pack(f">{len(chosen)}I", *chosen))


def bomb(raw_bytes: int) -> bytes:
    """A few kilobytes that become `raw_bytes`, and say so."""
    block = 128 * 1024
    repeated = (1 << 1 | block << 3).to_bytes(3, "little") + b"\0"
    last = (1 | 1 << 1 | block << 3).to_bytes(3, "little") + b"\0"
    head = b"\x28\xb5\x2f\xfd" + bytes([0xC0, 0x38]) + raw_bytes.to_bytes(8, "little")
    return head + repeated * (raw_bytes // block - 1) + last


def silent(raw: bytes) -> bytes:
    """A frame that does not say how much is inside."""
    return zstandard.ZstdCompressor(write_content_size=False).compress(raw)


def liar(claimed: int, raw_bytes: int) -> bytes:
    """A frame that claims `claimed` bytes and becomes `raw_bytes`."""
    made = bomb(raw_bytes)
    return made[:6] + claimed.to_bytes(8, "little") + made[14:]


def _describe(header: Header, number: int, value: Any) -> None:
    if number == MODULE:
        header[2], header[16] = [value[2], value[1]], value[0]
    elif number == JOURNAL:
        header[7] = value
    elif number == TRANSCRIPT:
        header[9][0] = value
    elif number == NUMBERS:
        header[4][4] = value
    else:
        header[4][5][0] = value


def _long_header(raw: bytes) -> bytes:
    return forge.rehash(raw[:16] + len(raw).to_bytes(8, "big") + raw[24:])


GIB = 2**30
PAGE = bytes(4096)
THREE_PAGES = b"".join(bytes([number]) * 4096 for number in (1, 5, 63))

CHANGES: dict[str, Change] = {
    "page numbers that descend": numbers(5, 1, 63),
    "a page number twice": numbers(1, 5, 5),
    "a page outside the memory": numbers(1, 5, 64),
    "a page at the end of the number range": numbers(1, 5, 2**32 - 1),
    "fewer page numbers than pages": numbers(1, 5),
    "more page numbers than pages": numbers(1, 5, 6, 7),
    "page numbers cut in the middle": piece(NUMBERS, bytes(11)),
    "more page numbers than the memory has": piece(NUMBERS, bytes(4 * 65)),
    "half a page": piece(PAGES, THREE_PAGES[:-2048]),
    "a page too many": piece(PAGES, THREE_PAGES + PAGE),
    "no pages for the numbers": set_at(4, 5, to=[]),
    "pages as one number": set_at(4, 5, to=3),
    "4 GiB of memory": set_at(4, 1, to=4 * GIB),
    "more memory than there are numbers": set_at(4, 1, to=2**64 - 1),
    "no memory": set_at(4, 1, to=0),
    "a memory of a byte more": set_at(4, 1, to=forge.MEMORY_BYTES + 1),
    "a negative memory": set_at(4, 1, to=-65536),
    "a huge unwound stack": set_at(4, 2, to=2**40),
    "no unwound stack": set_at(4, 2, to=0),
    "an unwound stack past its room": set_at(4, 2, to=262145),
    "a global of more than 64 bits": set_at(4, 3, "hhd_countdown", to=-1),
    "a thousand globals": set_at(4, 3, to={f"g{n}": 0 for n in range(1000)}),
    "a global without a name": set_at(4, 3, to={"": 0}),
    "a global named by a number": set_at(4, 3, to={1: 0}),
    "globals as a list": set_at(4, 3, to=[]),
    "a long name of the entry": set_at(4, 0, to="a" * 257),
    "an execution without a field": without(4, 0),
    "an execution with a field more": set_at(4, 6, to=0),
    "no execution where it waits": both(
        set_at(4, to=None), lambda header, pieces: pieces.__delitem__(slice(NUMBERS, None))
    ),
    "an execution where it is finished": both(set_at(0, to=3), set_at(5, to=None)),
    "an execution where it has not begun": both(set_at(0, to=0), set_at(5, to=None)),
    "an unknown place": set_at(0, to=4),
    "interrupted with an effect pending": both(set_at(0, to=1), set_at(5, to=None)),
    "another op than the journal's": set_at(5, 0, to="model"),
    "another request than the journal's": set_at(5, 1, to=bytes(32)),
    "no pending effect where the journal has one": set_at(5, to=None),
    "a journal without the pending effect": piece(JOURNAL, journal.encode(journal.Journal())),
    "a journal with another request": book(f2=b"second"),
    "a journal with another op": book(f1="model"),
    "a journal whose effect has another index": book(f0=1),
    "a journal answered without a reply": book(f3=3),
    "a journal with a reply before the answer": book(f5=b""),
    "a journal with an op of control characters": book(f1="\x1b[2J"),
    "a journal of nonsense": piece(JOURNAL, b"\xff"),
    "a journal with settled effects and no history": piece(
        JOURNAL,
        codec.encode({0: 5, 1: {0: 5, 1: "tool", 2: b"first", 3: 1, 4: 0, 5: None, 6: None, 7: False}}),
    ),
    "a history without settled effects": both(
        lambda header, pieces: header[8].append(pack(b"x").value()),
        lambda header, pieces: pieces.insert(TRANSCRIPT, bytes(pack(b"x").stored)),
    ),
    "a transcript chunk past its bound": piece(TRANSCRIPT, bytes(262145)),
    "a transcript chunk that is not full before the last": both(
        lambda header, pieces: header[9].append(header[9][0]),
        lambda header, pieces: pieces.insert(TRANSCRIPT, pieces[TRANSCRIPT]),
    ),
    "a hundred thousand empty chunks": set_at(9, to=[[1, 1, bytes(32)]] * 100_000),
    "a transcript as text": set_at(9, to="hello"),
    "a piece of no bytes": set_at(9, 0, 1, to=0),
    "a piece that is stored in no bytes": set_at(9, 0, 0, to=0),
    "a piece of huge stored length": set_at(9, 0, 0, to=2**62),
    "a piece of huge length": set_at(9, 0, 1, to=2**62),
    "a piece of negative length": set_at(9, 0, 1, to=-1),
    "a piece of true length": set_at(9, 0, 1, to=True),
    "a piece with a short digest": set_at(9, 0, 2, to=b"short"),
    "a piece with another digest": set_at(4, 5, 0, 2, to=bytes(32)),
    "a piece longer than it says": frame(PAGES, lambda stored: forge.packed(THREE_PAGES + b"x")),
    "a piece shorter than it says": frame(PAGES, lambda stored: forge.packed(THREE_PAGES[:-1])),
    "a piece with a byte behind its frame": frame(PAGES, lambda stored: stored + b"\0"),
    "a piece of two frames": frame(PAGES, lambda stored: stored + stored),
    "a piece that is no frame": frame(PAGES, lambda stored: b"\0" * len(stored)),
    "a piece cut short": frame(PAGES, lambda stored: stored[:-1]),
    "a skippable frame": frame(PAGES, lambda stored: b"\x50\x2a\x4d\x18\x04\0\0\0abcd"),
    "a frame that does not name its length": frame(PAGES, lambda stored: silent(THREE_PAGES)),
    "a frame of 10 GB": frame(PAGES, lambda stored: bomb(10 * GIB)),
    "a frame of 10 GB described as it is": both(
        frame(PAGES, lambda stored: bomb(10 * GIB)), set_at(4, 5, 0, 1, to=10 * GIB)
    ),
    "a frame of 10 GB that claims three pages": frame(PAGES, lambda stored: liar(3 * 4096, 10 * GIB)),
    "a short frame that claims 10 GB": frame(PAGES, lambda stored: liar(10 * GIB, 2**20)),
    "a frame of 10 GB in place of 16 MiB": both(frame(MODULE, lambda stored: bomb(10 * GIB)), set_at(2, 1, to=2**24)),
    "a frame of 10 GB that claims 16 MiB": both(
        frame(MODULE, lambda stored: liar(2**24, 10 * GIB)), set_at(2, 1, to=2**24)
    ),
    "a module of 10 GB": both(frame(MODULE, lambda stored: bomb(10 * GIB)), set_at(2, 1, to=10 * GIB)),
    "a module frame of 10 GB": frame(MODULE, lambda stored: bomb(10 * GIB)),
    "a journal of 10 GB": both(frame(JOURNAL, lambda stored: bomb(10 * GIB)), set_at(7, 1, to=10 * GIB)),
    "a transcript of 10 GB": both(frame(TRANSCRIPT, lambda stored: bomb(10 * GIB)), set_at(9, 0, 1, to=10 * GIB)),
    "page numbers of 10 GB": both(frame(NUMBERS, lambda stored: bomb(10 * GIB)), set_at(4, 4, 1, to=10 * GIB)),
    "another module's digest": set_at(2, 0, to=bytes(32)),
    "another module's length": set_at(2, 1, to=5),
    "a module of no bytes": both(
        set_at(2, 1, to=0), set_at(16, to=None), lambda header, pieces: pieces.__delitem__(MODULE)
    ),
    "bytes that nobody names": lambda header, pieces: pieces.append(b"x"),
    "a piece left out": lambda header, pieces: pieces.__delitem__(PAGES),
    "a field missing": without(10),
    "a field that is not known": set_at(11, to=0),
    "a field named by text": lambda header, pieces: header.update({"x": 0}),  # type: ignore[dict-item]
    "a program without a name": set_at(1, to=""),
    "a long name of the program": set_at(1, to="a" * 65),
    "a program named by a number": set_at(1, to=7),
    "arguments past their bound": set_at(3, to=bytes(1024 * 1024 + 1)),
    "arguments as text": set_at(3, to="{}"),
    "negative checks": set_at(6, to=-1),
    "more checks than can be": set_at(6, to=2**63),
    "limits past ours": set_at(10, to=[2**40, 1, 1]),
    "limits of two": set_at(10, to=[1, 1]),
    "a short line id": set_at(18, to=b"short"),
    "an origin of one": set_at(20, to=[b""]),
    "a path past its bound": set_at(21, to="a" * 4097),
    "a seal inside": set_at(22, to=b"seal"),
}
