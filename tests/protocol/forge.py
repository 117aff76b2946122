"""Builds capsules that no writer of ours would make, with every digest right."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import cbor2

from hhd_protocol import capsule, codec, journal
from hhd_protocol.abi import Snapshot
from hhd_protocol.capsule import At, Capsule, Execution, Module, Origin
from hhd_protocol.ids import LineId
from hhd_protocol.packed import pack
from hhd_protocol.stream import Stream

WASM = b"\0asm\1\0\0\0" + bytes(range(200))
LINE = LineId(bytes(range(16)))
MEMORY_BYTES = 4 * 65536


def snapshot(numbers: tuple[int, ...] = (1, 5, 63), memory_bytes: int = MEMORY_BYTES) -> Snapshot:
    """A paused execution whose page n is full of bytes n."""
    return Snapshot(
        entry="hhd_run",
        memory_bytes=memory_bytes,
        page_numbers=numbers,
        pages=[bytes([number % 256]) * 4096 for number in numbers],
        globals={"__stack_pointer": 1_048_000, "hhd_countdown": 2**32 - 1},
        asyncify_stack_bytes=312,
    )


def fresh() -> Capsule:
    """A capsule that has not begun."""
    return Capsule(at=At.FRESH, program="spin", module=Module.of(WASM), args=b'{"iterations":"7"}', line=LINE)


def interrupted() -> Capsule:
    """One stopped at a check, with a past of two effects."""
    before = at_effect()
    book, record = before.journal.answer(b"one").ask("tool", b"second")
    assert record is not None
    history = before.history.append(journal.encode_settled(record))
    return Capsule(
        at=At.INTERRUPTED,
        program="module",
        module=Module.of(WASM),
        args=b"{}",
        line=LINE,
        execution=Execution.of(snapshot()),
        journal=book.start().answer(b"two"),
        history=history,
        transcript=Stream().append(b"line\n" * 3),
        checks=12345,
        steps=3,
        origin=Origin(session=b"s" * 16, checkpoint=b"c" * 32, device="laptop"),
        path_hint="/home/alice/work",
    )


def at_effect() -> Capsule:
    """One that waits for a tool."""
    waiting = Capsule(
        at=At.EFFECT,
        program="agent",
        module=Module.of(WASM),
        args=b"{}",
        line=LINE,
        execution=Execution.of(snapshot()),
        journal=journal.Journal().ask("tool", b"first")[0],
        transcript=Stream().append(b"hello\n"),
        checks=99,
        steps=1,
    )
    return waiting


def finished() -> Capsule:
    """One that is over."""
    return Capsule(
        at=At.FINISHED,
        program="spin",
        module=Module.of(WASM, embed=False),
        args=b"{}",
        line=LINE,
        transcript=Stream().append(b"done\n"),
        checks=2_000_000,
        steps=9,
    )


def whole(value: Capsule) -> bytes:
    """The file of `value`."""
    return b"".join(capsule.encode(value))


def taken_apart(raw: bytes) -> tuple[dict[int, Any], list[bytes]]:
    """The header of a good file and its pieces."""
    length = int.from_bytes(raw[16:24], "big")
    header: dict[int, Any] = cbor2.loads(raw[64 : 64 + length])
    rest = raw[64 + length :]
    pieces = []
    for size in _sizes(header):
        pieces.append(rest[:size])
        rest = rest[size:]
    assert not rest
    return header, pieces


def _sizes(header: dict[int, Any]) -> list[int]:
    execution = header[4]
    told = [header[7], *header[8], *header[9]]
    if execution is not None and execution[4] is not None:
        told += [execution[4], *execution[5]]
    return ([] if header[16] is None else [header[16]]) + [piece[0] for piece in told]


def put_together(
    header: dict[int, Any],
    pieces: list[bytes],
    *,
    version: int = 1,
    flags: int = 0,
    encode: Callable[[Any], bytes] = codec.encode,
) -> bytes:
    """A file of these, with the digests it should have."""
    header = copy.deepcopy(header)
    with contextlib.suppress(KeyError, TypeError, IndexError):  # Where it is so misshapen that none is defined.
        header[19] = sha256(encode(_content(header))).digest()
    return sealed(encode(header), pieces, version=version, flags=flags)


def sealed(header: bytes, pieces: list[bytes], *, version: int = 1, flags: int = 0) -> bytes:
    """A file with this very header, with the integrity digest it should have."""
    body = header + b"".join(pieces)
    start = capsule.MAGIC + version.to_bytes(4, "big") + flags.to_bytes(4, "big")
    start += len(header).to_bytes(8, "big") + (64 + len(body)).to_bytes(8, "big")
    return start + sha256(start + body).digest() + body


def _content(header: dict[int, Any]) -> dict[int, Any]:
    content = {key: copy.deepcopy(header[key]) for key in range(11)}
    content[7] = content[7][1:]
    for key in (8, 9):
        content[key] = [piece[1:] for piece in content[key]]
    if content[4] is not None:
        if content[4][4] is not None:
            content[4][4] = content[4][4][1:]
        content[4][5] = [piece[1:] for piece in content[4][5]]
    return content


def rehash(raw: bytes) -> bytes:
    """The same file with the integrity digest it should have."""
    return raw[:32] + sha256(raw[:32] + raw[64:]).digest() + raw[64:]


def packed(raw: bytes) -> bytes:
    """`raw` as the frame a writer would make."""
    return bytes(pack(raw).stored)
