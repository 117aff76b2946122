"""Zstandard, behind functions that bound what bytes from outside can make it allocate.

A prefix is content both sides have: matches into it cost next to nothing. Each prefix gets a dictionary object of its
own, and nothing is ever digested twice: zstandard 0.25 crashes when one dictionary object is precomputed for a second
level while a compressor of the first lives.
"""

from __future__ import annotations

import zstandard

from hhd_protocol.errors import FormatError, TooLargeError

LEVEL = 3
"""Measured on JSON-like pages with a prefix: level 3 gives a fifth of level 1's bytes in 1.1 times its time."""

WINDOW_BYTES_MAX = 8 * 1024 * 1024
"""What a frame may make a reader allocate beside its content: level 3 asks for at most 2 MiB."""

_COMPRESSORS: list[zstandard.ZstdCompressor] = []
_DECOMPRESSORS: list[zstandard.ZstdDecompressor] = []
"""Idle ones: making one costs ten times what a small frame does. Each is one call's at a time, whatever "
"thread it is."""


def compressor(prefix: bytes, bytes_max: int) -> zstandard.ZstdCompressor:
    """Return a compressor of contents of at most `bytes_max` bytes behind `prefix`; one thread's at a time."""
    parameters = zstandard.ZstdCompressionParameters.from_level(
        LEVEL,
        source_size=bytes_max,
        dict_size=len(prefix),
        write_content_size=1,
        write_checksum=0,
        write_dict_id=0,
    )
    if not prefix:
        return zstandard.ZstdCompressor(compression_params=parameters)
    dictionary = zstandard.ZstdCompressionDict(prefix, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    return zstandard.ZstdCompressor(compression_params=parameters, dict_data=dictionary)


def decompressor(prefix: bytes) -> zstandard.ZstdDecompressor:
    """Return a decompressor of frames behind `prefix`; one thread's at a time."""
    if not prefix:
        return zstandard.ZstdDecompressor(max_window_size=WINDOW_BYTES_MAX)
    dictionary = zstandard.ZstdCompressionDict(prefix, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    return zstandard.ZstdDecompressor(dict_data=dictionary, max_window_size=WINDOW_BYTES_MAX)


def compress(content: bytes) -> bytes:
    """Return `content` as one frame that names its size."""
    using = _COMPRESSORS.pop() if _COMPRESSORS else zstandard.ZstdCompressor(level=LEVEL)
    frame = using.compress(content)
    _COMPRESSORS.append(using)
    return frame


def decompress(frame: bytes, *, bytes_max: int) -> bytes:
    """Return the content of one frame; raises FormatError, and TooLargeError before anything is allocated."""
    try:
        size = zstandard.frame_content_size(frame)
    except zstandard.ZstdError as error:
        raise FormatError("the bytes are not a zstd frame") from error
    if size < 0:
        raise FormatError("a zstd frame does not name its size")
    if size > bytes_max:
        raise TooLargeError(f"a zstd frame of {size} bytes passes the bound of {bytes_max}")
    using = _DECOMPRESSORS.pop() if _DECOMPRESSORS else decompressor(b"")
    content = decompress_exactly(frame, size, using)
    _DECOMPRESSORS.append(using)
    return content


def decompress_exactly(frame: bytes, size: int, using: zstandard.ZstdDecompressor) -> bytes:
    """Return the `size` bytes of one frame; raises FormatError if it holds more, fewer or others behind it."""
    try:
        if zstandard.frame_content_size(frame) != size:
            raise FormatError("a zstd frame does not hold the size that its place names")
        content = using.decompress(frame, max_output_size=max(size, 1), allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise FormatError("a zstd frame does not decompress") from error
    if len(content) != size:
        raise FormatError("a zstd frame does not hold the size that it names")
    return content
