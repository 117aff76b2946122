"""A capsule: one paused session in one file (`protocol/spec/capsule.md`).

It is a detached copy with no right to advance the session it came from. A fixed head is followed by a header in
canonical CBOR, then by compressed pieces end to end in the order the header names them.

Two digests: *integrity* covers every byte of the file, so damage is found before anything is believed; *content* covers
what the session is (module, arguments, memory, journal, transcript) and nothing about this copy of it, so it is equal
on every processor after the same steps. Neither is a signature: whoever makes a hostile capsule makes good digests
too, so every number is checked on its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256

from hhd_protocol import codec, journal
from hhd_protocol import limits as bounds
from hhd_protocol.compression import Buffer
from hhd_protocol.errors import FormatError, NewerVersionError, TooLargeError
from hhd_protocol.ids import LineId, Sha256
from hhd_protocol.packed import Packed, pack, parse, unpack
from hhd_protocol.pages import PageSet, piece_lengths
from hhd_protocol.paused import (
    CONTENT_KEYS,
    At,
    Capsule,
    Execution,
    Limits,
    Module,
    Origin,
    content_of,
    digest_of,
    execution_value,
)
from hhd_protocol.stream import Stream

__all__ = ["At", "Capsule", "Execution", "Limits", "Module", "Origin", "SealedCapsuleError", "decode", "encode"]

MAGIC = b"\x89hhdc\r\n\x1a"
"""Not text in any encoding, and damaged by any transfer that rewrites line ends."""
VERSION = 1
HEAD_BYTES = 64
SEALED = 1
"""The one flag that is spoken for: what follows the head is sealed (`hhd_protocol.sealed`)."""


class SealedCapsuleError(FormatError):
    """It is a capsule, but a sealed one: `hhd_protocol.sealed` opens it."""


def encode(capsule: Capsule) -> list[Buffer]:
    """Return the file of `capsule`, as buffers to be written one after the other."""
    book = pack(journal.encode(capsule.journal))
    content = content_of(capsule, book.raw_bytes, book.digest)
    embedded = capsule.module.packed
    pieces = ([] if embedded is None else [embedded]) + [book, *_content_pieces(capsule)]
    header = codec.encode(
        {
            **content,
            7: book.value(),
            8: [piece.value() for piece in capsule.history.chunks],
            9: [piece.value() for piece in capsule.transcript.chunks],
            4: execution_value(capsule.execution, stored=True),
            16: None if embedded is None else len(embedded.stored),
            17: capsule.steps,
            18: capsule.line,
            19: digest_of(content),
            20: None
            if capsule.origin is None
            else [capsule.origin.session, capsule.origin.checkpoint, capsule.origin.device],
            21: capsule.path_hint,
            22: None,
        }
    )
    if len(header) > bounds.CAPSULE_HEADER_BYTES_MAX:
        raise TooLargeError(f"the capsule's header of {len(header)} bytes passes its bound")
    total = HEAD_BYTES + len(header) + sum(len(piece.stored) for piece in pieces)
    if total > bounds.CAPSULE_BYTES_MAX:
        raise TooLargeError(f"the capsule of {total} bytes passes the bound of {bounds.CAPSULE_BYTES_MAX}")
    start = _head_start(len(header), total)
    body: list[Buffer] = [header, *(piece.stored for piece in pieces)]
    return [start + _integrity(start, body), *body]


def decode(raw: bytes | memoryview) -> Capsule:
    """Return the capsule whose whole file is `raw`; the pieces stay packed.

    Raises FormatError (TooLargeError, NewerVersionError, SealedCapsuleError), whose message is a clause about the file.
    """
    view = memoryview(raw)
    header_bytes = _read_head(view)
    header = codec.decode(bytes(view[HEAD_BYTES : HEAD_BYTES + header_bytes]), bytes_max=header_bytes)
    if not isinstance(header, dict) or set(header) != _HEADER_KEYS:
        raise FormatError("it lacks a field, or has one that is not known")
    fields: dict[int, codec.Value] = header  # type: ignore[assignment]
    if fields[22] is not None:
        raise FormatError("it has a seal where an unsealed capsule has none")
    cut = _Cutter(view[HEAD_BYTES + header_bytes :])
    module = _module(fields[2], fields[16], cut)
    book = cut.piece(fields[7], "the journal", bounds.JOURNAL_BYTES_MAX)
    history = cut.stream(fields[8], "the history", bounds.HISTORY_BYTES_MAX)
    transcript = cut.stream(fields[9], "the transcript", bounds.TRANSCRIPT_BYTES_MAX)
    execution = None if fields[4] is None else _execution(fields[4], cut)
    cut.finish()
    at = _number(fields[0], "the place it stands at", max(At))
    capsule = Capsule(
        at=At(at),
        program=_text(fields[1], "the program's name", bounds.PROGRAM_BYTES_MAX),
        module=module,
        args=_octets(fields[3], "the arguments", bounds.ARGS_BYTES_MAX),
        execution=execution,
        journal=journal.decode(unpack(book)),
        history=history,
        transcript=transcript,
        limits=_limits(fields[10]),
        checks=_number(fields[6], "the number of checks", bounds.CHECKS_MAX),
        steps=_number(fields[17], "the number of steps", bounds.CHECKS_MAX),
        line=LineId(_octets(fields[18], "the line id", 16, exact=True)),
        origin=_origin(fields[20]),
        path_hint=None if fields[21] is None else _text(fields[21], "the path", bounds.PATH_HINT_BYTES_MAX),
    )
    content = content_of(capsule, book.raw_bytes, book.digest)
    if fields[5] != content[5]:
        raise FormatError("its pending effect is not the one of its journal")
    if fields[19] != digest_of(content):
        raise FormatError("its content is not the one its digest names")
    return capsule


def is_sealed(start: bytes | memoryview) -> bool:
    """Whether a file that begins with `start` (16 bytes suffice) says that it is a sealed capsule."""
    return bytes(start[:16]) == MAGIC + VERSION.to_bytes(4, "big") + SEALED.to_bytes(4, "big")


def module_bytes(module: Module) -> bytes:
    """Return the embedded wasm of `module`, proven by its digest."""
    assert module.packed is not None
    return unpack(module.packed)


def transcript_bytes(capsule: Capsule) -> Iterator[bytes]:
    """The transcript, chunk by chunk; raises FormatError at a damaged one."""
    return iter(capsule.transcript)


_HEADER_KEYS = CONTENT_KEYS | frozenset(range(16, 23))


def _head_start(header_bytes: int, total: int) -> bytes:
    return (
        MAGIC
        + VERSION.to_bytes(4, "big")
        + (0).to_bytes(4, "big")
        + header_bytes.to_bytes(8, "big")
        + total.to_bytes(8, "big")
    )


def _integrity(start: bytes | memoryview, body: list[Buffer]) -> bytes:
    digest = sha256(start)
    for part in body:
        digest.update(part)
    return digest.digest()


def _read_head(view: memoryview) -> int:
    """Check the fixed head and the integrity digest; return the length of the header."""
    start = bytes(view[:32])
    if start[:8] != MAGIC[: len(start)] or not start:
        raise FormatError("it is not a capsule of hhd")
    if len(view) > bounds.CAPSULE_BYTES_MAX:
        raise TooLargeError(f"it has {len(view)} bytes, more than the {bounds.CAPSULE_BYTES_MAX} a capsule may have")
    if len(view) < HEAD_BYTES:
        raise FormatError("it is cut short")
    version = int.from_bytes(start[8:12], "big")
    if version > VERSION:
        raise NewerVersionError(f"it has format version {version}, and this hhd reads up to {VERSION}")
    flags = int.from_bytes(start[12:16], "big")
    if version == VERSION and flags == SEALED:
        raise SealedCapsuleError("it is sealed, and has to be opened first")
    header_bytes, total = int.from_bytes(start[16:24], "big"), int.from_bytes(start[24:32], "big")
    if len(view) < total <= bounds.CAPSULE_BYTES_MAX:
        raise FormatError(f"it is cut short: {len(view)} of {total} bytes are there")
    if _integrity(start, [view[HEAD_BYTES:]]) != view[32:HEAD_BYTES]:
        raise FormatError("it is damaged: its bytes are not the ones its digest names")
    if version != VERSION or flags:
        raise FormatError(f"it has the unknown format version {version} or flags {flags}")
    if total != len(view):
        raise FormatError(f"it says to have {total} bytes and has {len(view)}")
    if header_bytes > min(bounds.CAPSULE_HEADER_BYTES_MAX, len(view) - HEAD_BYTES):
        raise FormatError("its header passes its bound or its end")
    return header_bytes


def _content_pieces(capsule: Capsule) -> list[Packed]:
    pages = None if capsule.execution is None else capsule.execution.pages
    of_pages = [] if pages is None or pages.numbers is None else [pages.numbers, *pages.contents]
    return [*capsule.history.chunks, *capsule.transcript.chunks, *of_pages]


class _Cutter:
    """Cuts the rest of the file into pieces, in order, each proven to lie inside it."""

    def __init__(self, rest: memoryview) -> None:
        self._rest = rest

    def piece(self, value: codec.Value, what: str, raw_bytes_max: int) -> Packed:
        stored, raw, digest = parse(value, what, raw_bytes_max)
        if stored > len(self._rest):
            raise FormatError(f"{what} reaches past the end of the file")
        piece = Packed(stored=self._rest[:stored], raw_bytes=raw, digest=digest)
        self._rest = self._rest[stored:]
        return piece

    def stream(self, value: codec.Value, what: str, raw_bytes_max: int) -> Stream:
        if not isinstance(value, list) or len(value) > raw_bytes_max // bounds.STREAM_CHUNK_BYTES + 1:
            raise FormatError(f"{what} is not a list of chunks within its bound")
        chunks = tuple(self.piece(item, what, bounds.STREAM_CHUNK_BYTES) for item in value)
        if any(chunk.raw_bytes != bounds.STREAM_CHUNK_BYTES for chunk in chunks[:-1]):
            raise FormatError(f"{what} has a chunk that is not full before its last one")
        return Stream(chunks=chunks)

    def finish(self) -> None:
        if len(self._rest):
            raise FormatError(f"it has {len(self._rest)} bytes that its header does not name")


def _module(value: codec.Value, stored: codec.Value, cut: _Cutter) -> Module:
    if not isinstance(value, list) or len(value) != 2:
        raise FormatError("its module is not described by a digest and a length")
    digest = Sha256(_octets(value[0], "the module's digest", 32, exact=True))
    length = _number(value[1], "the module's length", bounds.MODULE_BYTES_MAX)
    packed = None if stored is None else cut.piece([stored, length, digest], "the module", bounds.MODULE_BYTES_MAX)
    return Module(digest=digest, length=length, packed=packed)


def _execution(value: codec.Value, cut: _Cutter) -> Execution:
    if not isinstance(value, dict) or set(value) != set(range(6)):
        raise FormatError("its execution lacks a field, or has one that is not known")
    fields: dict[int, codec.Value] = value  # type: ignore[assignment]
    memory_bytes = _number(fields[1], "the memory's size", bounds.MEMORY_BYTES_MAX)
    pages_max = memory_bytes // bounds.PAGE_BYTES
    numbers = None if fields[4] is None else cut.piece(fields[4], "the list of pages", pages_max * 4)
    if numbers is not None and numbers.raw_bytes % 4:
        raise FormatError("the list of pages is not made of 32-bit numbers")
    lengths = piece_lengths(0 if numbers is None else numbers.raw_bytes // 4)
    if not isinstance(fields[5], list) or len(fields[5]) != len(lengths):
        raise FormatError("the pages are not in as many pieces as their number asks for")
    contents = tuple(
        cut.piece(item, "a piece of pages", bounds.PAGES_PER_PIECE * bounds.PAGE_BYTES) for item in fields[5]
    )
    if [piece.raw_bytes for piece in contents] != lengths:
        raise FormatError("a piece of pages has another length than their number asks for")
    return Execution(
        entry=_text(fields[0], "the entry's name", bounds.GLOBAL_NAME_BYTES_MAX),
        memory_bytes=memory_bytes,
        asyncify_stack_bytes=_number(fields[2], "the unwound stack", bounds.ASYNCIFY_STACK_BYTES_MAX),
        globals=_globals(fields[3]),
        pages=PageSet(numbers=numbers, contents=contents),
    )


def _globals(value: codec.Value) -> dict[str, int]:
    if not isinstance(value, dict) or len(value) > bounds.GLOBALS_MAX:
        raise FormatError(f"its globals are not a map of at most {bounds.GLOBALS_MAX}")
    return {
        _text(name, "a global's name", bounds.GLOBAL_NAME_BYTES_MAX): _number(bits, "a global", 2**64 - 1)
        for name, bits in value.items()
    }


def _limits(value: codec.Value) -> Limits:
    if not isinstance(value, list) or len(value) != 3:
        raise FormatError("its limits are not three numbers")
    return Limits(
        memory_bytes=_number(value[0], "the limit of memory", bounds.MEMORY_BYTES_MAX),
        transcript_bytes=_number(value[1], "the limit of the transcript", bounds.TRANSCRIPT_BYTES_MAX),
        effects=_number(value[2], "the limit of effects", bounds.EFFECTS_MAX),
    )


def _origin(value: codec.Value) -> Origin | None:
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != 3:
        raise FormatError("its origin is not a session, a checkpoint and a device")
    return Origin(
        session=_octets(value[0], "the origin's session", 32),
        checkpoint=_octets(value[1], "the origin's checkpoint", 32),
        device=_text(value[2], "the origin's device", 256),
    )


def _number(value: codec.Value, what: str, largest: int) -> int:
    if type(value) is not int or value < 0:
        raise FormatError(f"{what} is not a number")
    if value > largest:
        raise TooLargeError(f"{what} is {value}, which passes the bound of {largest}")
    return value


def _text(value: codec.Value, what: str, bytes_max: int) -> str:
    if not isinstance(value, str) or not value or len(value.encode("utf-8", "surrogatepass")) > bytes_max:
        raise FormatError(f"{what} is not a text of 1 to {bytes_max} bytes")
    return value


def _octets(value: codec.Value, what: str, bytes_max: int, *, exact: bool = False) -> bytes:
    if not isinstance(value, bytes) or len(value) > bytes_max or (exact and len(value) != bytes_max):
        raise FormatError(f"{what} is not {'' if exact else 'at most '}{bytes_max} bytes")
    return value
