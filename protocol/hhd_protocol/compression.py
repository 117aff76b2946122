"""Zstandard, the one place that knows it, behind functions that bound what bytes from outside can make it allocate.

A prefix is content both sides have: matches into it cost next to nothing. Each prefix gets a dictionary object of its
own, and nothing is ever digested twice: zstandard 0.25 crashes when one dictionary object is precomputed for a second
level while a compressor of the first lives.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import zstandard

from hhd_protocol.errors import FormatError, TooLargeError
from hhd_protocol.limits import ZSTD_WINDOW_BYTES_MAX

Buffer = bytes | memoryview
Compressor = zstandard.ZstdCompressor
Decompressor = zstandard.ZstdDecompressor
"""Each is one thread's at a time."""

LEVEL = 3
"""zstd's own default: text of a conversation shrinks to a fifth at 300 MB/s and more. Measured on JSON-like pages
with a prefix: level 3 gives a fifth of level 1's bytes in 1.1 times its time."""
LEVEL_FAST = 1
"""For memory pages of a capsule, which are written at every step."""
LEVEL_ONCE = 12
"""For a module, which is packed once and copied from then on."""

_COMPRESSORS: dict[int, list[Compressor]] = {}
_DECOMPRESSORS: list[Decompressor] = []
"""Idle ones, by level: making one costs ten times what a small frame does. Each is one call's at a time, whatever
thread it is."""


def compressor(prefix: bytes, bytes_max: int, level: int = LEVEL) -> Compressor:
    """Return a compressor of contents of at most `bytes_max` bytes behind `prefix`."""
    parameters = zstandard.ZstdCompressionParameters.from_level(
        level,
        source_size=bytes_max,
        dict_size=len(prefix),
        write_content_size=1,
        write_checksum=0,
        write_dict_id=0,
    )
    if not prefix:
        return Compressor(compression_params=parameters)
    dictionary = zstandard.ZstdCompressionDict(prefix, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    return Compressor(compression_params=parameters, dict_data=dictionary)


def decompressor(prefix: bytes) -> Decompressor:
    """Return a decompressor of frames behind `prefix`."""
    if not prefix:
        return Decompressor(max_window_size=ZSTD_WINDOW_BYTES_MAX)
    dictionary = zstandard.ZstdCompressionDict(prefix, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    return Decompressor(dict_data=dictionary, max_window_size=ZSTD_WINDOW_BYTES_MAX)


def compress(content: Buffer, level: int = LEVEL) -> bytes:
    """Return `content` as one frame that names its size."""
    idle = _COMPRESSORS.setdefault(level, [])
    using = idle.pop() if idle else Compressor(level=level)
    frame = using.compress(content)
    idle.append(using)
    return frame


def decompress(frame: Buffer, *, bytes_max: int) -> bytes:
    """Return the content of one frame; raises FormatError, and TooLargeError before anything is allocated."""
    size = frame_size(frame)
    if size > bytes_max:
        raise TooLargeError(f"a zstd frame of {size} bytes passes the bound of {bytes_max}")
    return decompress_exactly(frame, size)


def frame_size(frame: Buffer) -> int:
    """Return how many bytes a frame says it holds; raises FormatError if it does not say."""
    try:
        size: int = zstandard.frame_content_size(frame)
    except zstandard.ZstdError as error:
        raise FormatError("the bytes are not a zstd frame") from error
    if size < 0:
        raise FormatError("a zstd frame does not name its size")
    return size


def decompress_exactly(frame: Buffer, size: int, using: Decompressor | None = None) -> bytes:
    """Return the `size` bytes of one frame; raises FormatError if it holds more, fewer or others behind it.

    `using`: what knows the prefix; None if there is none.
    """
    idle = None
    if using is None:
        using = idle = _DECOMPRESSORS.pop() if _DECOMPRESSORS else decompressor(b"")
    try:
        if zstandard.frame_content_size(frame) != size:
            raise FormatError("a zstd frame does not hold the size that its place names")
        content = using.decompress(frame, max_output_size=max(size, 1), allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise FormatError("a zstd frame does not decompress") from error
    if len(content) != size:
        raise FormatError("a zstd frame does not hold the size that it names")
    if idle is not None:
        _DECOMPRESSORS.append(idle)
    return content


def decompress_many(
    frames: Sequence[Buffer], sizes: Sequence[int], using: Decompressor, *, threads: int = 1
) -> list[memoryview]:
    """Return the contents of many frames behind one prefix, of the `sizes` they must have, in one call.

    Raises FormatError if one holds more or fewer bytes; bytes behind a frame are not looked at.
    """
    try:
        found = using.multi_decompress_to_buffer(list(frames), struct.pack(f"={len(sizes)}Q", *sizes), threads=threads)
    except (zstandard.ZstdError, ValueError) as error:
        raise FormatError("a zstd frame does not decompress to the size that its place names") from error
    return [memoryview(found[i]) for i in range(len(found))]  # type: ignore[arg-type]  # It is a buffer.


def insist_on_window(frame: Buffer, window_bytes_max: int) -> None:
    """Raise FormatError if a frame asks for more window than that, or for a dictionary."""
    try:
        parameters = zstandard.get_frame_parameters(frame)
    except zstandard.ZstdError as error:
        raise FormatError("the bytes are not a zstd frame") from error
    if parameters.window_size > window_bytes_max or parameters.dict_id:
        raise FormatError("a zstd frame asks for a window or a dictionary that no reader here has")
