"""How to make an image object again out of its parent's pages, byte for byte (`protocol/spec/sync.md`, Rebuilding).

The sealed object has to be the same at both ends: its hash is what a signed checkpoint names. So the recipe has what
went into the seal and cannot be found anew (nonce, head) and the pages as a difference to the parent's; whoever makes
the object compresses as the writer did. Whether that came out the same is compared before anything is sealed: another
build of zstd makes another stream, which must not be sealed under the nonce of this one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hhd_protocol.codec import decode, encode
from hhd_protocol.compression import compressor, decompress_exactly, decompressor
from hhd_protocol.crypto import NONCE_BYTES, derive, seal, unseal
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import EpochId, ObjectName
from hhd_protocol.images import ImageHead, decode_head, encode_frames, segments_of
from hhd_protocol.limits import PAGE_BYTES, SEGMENT_PAGES_MAX, SYNC_MESSAGE_BYTES_MAX
from hhd_protocol.objects import Ref, object_name, seal_object

Buffer = bytes | memoryview
_EPOCH_BYTES = 32


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """`head`: the object's first segment. `digest`: SHA-256 over all segments, joined. `changes`: the differences."""

    ref: Ref
    nonce: bytes
    head: bytes = field(repr=False)
    digest: bytes
    changes: tuple[bytes, ...] = field(repr=False)

    def opened(self) -> ImageHead:
        """The head of the object; raises FormatError where this is no image that stands on another one."""
        head = decode_head(self.head)
        if head.parent is None or not head.pages or not head.bases:
            raise FormatError("a recipe is for an object that is not made of earlier versions")
        return head


@dataclass(frozen=True, kw_only=True)
class Remade:
    """An object that was made again: `raw`, sealed. `frames`: the own pages of each of its frames, as whoever reads it
    behind the same bases will find them; None where its head names other frames than those."""

    raw: bytes = field(repr=False)
    frames: tuple[bytes, ...] | None = field(repr=False)


def make(ref: Ref, *, nonce: bytes, segments: Sequence[bytes], old: Sequence[Buffer], new: Sequence[Buffer]) -> Recipe:
    """Return the recipe of the object with these opened `segments`; `old`: its parent's pages, empty where none."""
    changes = []
    for begin in range(0, len(new), SEGMENT_PAGES_MAX):
        prefix = b"".join(old[begin : begin + SEGMENT_PAGES_MAX])
        content = b"".join(new[begin : begin + SEGMENT_PAGES_MAX])
        changes.append(compressor(prefix, len(content)).compress(content))
    digest = hashlib.sha256(b"".join(segments)).digest()
    return Recipe(ref=ref, nonce=nonce, head=segments[0], digest=digest, changes=tuple(changes))


def remake(
    recipe: Recipe, key: bytes, *, old: Sequence[Buffer], base: Callable[[ImageHead, int], Buffer]
) -> Remade | None:
    """Return the object; None where this build of zstd makes other streams than the sender's.

    `old`: the parent's versions of the own pages, empty where it has none. `base`: the base of a slot. Raises
    FormatError where the recipe does not hold together.
    """
    head = recipe.opened()
    if len(old) != len(head.pages) or len(recipe.changes) != -(-len(head.pages) // SEGMENT_PAGES_MAX):
        raise FormatError("a recipe is for other pages than its object has")
    pages: list[bytes] = []
    contents: list[bytes] = []
    for at, change in enumerate(recipe.changes):
        part = old[at * SEGMENT_PAGES_MAX : (at + 1) * SEGMENT_PAGES_MAX]
        content = decompress_exactly(change, len(part) * PAGE_BYTES, decompressor(b"".join(part)))
        contents.append(content)
        pages += [content[i : i + PAGE_BYTES] for i in range(0, len(content), PAGE_BYTES)]
    begins = range(0, len(pages), SEGMENT_PAGES_MAX)
    using = (
        compressor(
            b"".join(base(head, slot) for slot in range(begin, min(begin + SEGMENT_PAGES_MAX, len(pages)))),
            min(len(pages), SEGMENT_PAGES_MAX) * PAGE_BYTES,
        )
        for begin in begins
    )
    frames = encode_frames(pages, SEGMENT_PAGES_MAX, using)
    segments = [recipe.head, *segments_of(frames, head.frames_per_segment())]
    if hashlib.sha256(b"".join(segments)).digest() != recipe.digest:
        return None
    raw = seal_object(key, recipe.nonce, segments)
    if object_name(raw) != recipe.ref.name:
        raise FormatError("a recipe makes another object than it names")
    named = (
        not head.dictionary and head.frame_pages == SEGMENT_PAGES_MAX and list(head.frames) == list(map(len, frames))
    )
    return Remade(raw=raw, frames=tuple(contents) if named else None)


def seal_recipe(recipe: Recipe, key: bytes, nonce: bytes) -> bytes:
    """Return the recipe sealed under a key derived from that of its epoch; `nonce` is 24 random bytes."""
    plain = encode([1, recipe.nonce, recipe.head, recipe.digest, list(recipe.changes)])
    return recipe.ref.epoch + nonce + seal(derive(key, "recipe"), nonce, plain, ad=recipe.ref.name)


def epoch_of(sealed: bytes) -> EpochId:
    """Return the epoch whose key a sealed recipe opens with; raises FormatError."""
    if len(sealed) < _EPOCH_BYTES + NONCE_BYTES:
        raise FormatError("a recipe is cut short")
    return EpochId(sealed[:_EPOCH_BYTES])


def open_recipe(sealed: bytes, name: ObjectName, key: bytes) -> Recipe:
    """Return the recipe of the object `name`; raises FormatError."""
    ref = Ref(name=name, epoch=epoch_of(sealed))
    nonce, rest = sealed[_EPOCH_BYTES : _EPOCH_BYTES + NONCE_BYTES], sealed[_EPOCH_BYTES + NONCE_BYTES :]
    plain = unseal(derive(key, "recipe"), nonce, rest, ad=name)
    match decode(plain, bytes_max=SYNC_MESSAGE_BYTES_MAX):
        case [1, bytes(inner), bytes(head), bytes(digest), list(changes)] if len(inner) == NONCE_BYTES:
            parts = tuple(one for one in changes if isinstance(one, bytes))
            if len(parts) == len(changes) and len(digest) == 32:
                return Recipe(ref=ref, nonce=inner, head=head, digest=digest, changes=parts)
    raise FormatError("a recipe is not in its form")
