"""How to make an image object again out of its parent's pages, byte for byte (`protocol/spec/sync.md`, Rebuilding).

The sealed object has to be the same at both ends: its hash is what a signed checkpoint names. So the recipe has what
went into the seal and cannot be found anew (nonce, head) and the pages as a difference to the parent's; whoever makes
the object compresses as the writer did. Whether that came out the same is compared before anything is sealed: another
build of zstd makes another stream, which must not be sealed under the nonce of this one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat

from hhd_protocol.codec import Value, decode, encode
from hhd_protocol.columns import decode_column, decode_rising, encode_column, encode_rising
from hhd_protocol.compression import Compressor, compressor, decompress_exactly, decompressor
from hhd_protocol.crypto import NONCE_BYTES, derive, seal, unseal
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import EpochId, ObjectName
from hhd_protocol.images import ImageHead, decode_head, encode_frames, segments_of
from hhd_protocol.limits import MEMORY_BYTES_MAX, PAGE_BYTES, SEGMENT_PAGES_MAX, SYNC_MESSAGE_BYTES_MAX
from hhd_protocol.objects import Ref, object_name, seal_object
from hhd_protocol.sync import lists

Buffer = bytes | memoryview
Places = Callable[[Ref], lists.Places]
_EPOCH_BYTES = 32


def no_places(image: Ref) -> lists.Places:
    """For recipes that name no other image."""
    raise FormatError("a recipe names an image that it is not told behind")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """`head`: the object's first segment. `digest`: SHA-256 over all segments, joined. `changes`: the differences,
    behind pages of the image `before`; None: of the parent that the head names, which one that stands alone has not."""

    ref: Ref
    nonce: bytes
    head: bytes = field(repr=False)
    digest: bytes
    changes: tuple[bytes, ...] = field(repr=False)
    before: Ref | None = None

    def opened(self) -> ImageHead:
        """The head of the object; raises FormatError where this is no image that comes after another one."""
        head = decode_head(self.head)
        if not (head.pages and (stands_alone(head) if self.before is not None else head.parent and head.bases)):
            raise FormatError("a recipe is for an object that is not made of earlier versions")
        return head

    def image(self) -> Ref:
        """The image whose pages the changes stand behind."""
        found = self.before or self.opened().parent
        assert found is not None
        return found


@dataclass(frozen=True, kw_only=True)
class Remade:
    """An object that was made again: `raw`, sealed. `frames`: the own pages of each of its frames, as whoever reads it
    behind the same bases will find them; None where its head names other frames than those."""

    raw: bytes = field(repr=False)
    frames: tuple[bytes, ...] | None = field(repr=False)


def make(
    ref: Ref,
    *,
    nonce: bytes,
    segments: Sequence[bytes],
    old: Sequence[Buffer],
    new: Sequence[Buffer],
    before: Ref | None = None,
) -> Recipe:
    """Return the recipe of the object with these opened `segments`; `old`: its pages in its parent, or in the image
    `before`, empty where none."""
    changes = []
    for begin in range(0, len(new), SEGMENT_PAGES_MAX):
        prefix = b"".join(old[begin : begin + SEGMENT_PAGES_MAX])
        content = b"".join(new[begin : begin + SEGMENT_PAGES_MAX])
        changes.append(compressor(prefix, len(content)).compress(content))
    digest = hashlib.sha256(b"".join(segments)).digest()
    return Recipe(ref=ref, nonce=nonce, head=segments[0], digest=digest, changes=tuple(changes), before=before)


def remake(
    recipe: Recipe, key: bytes, *, old: Sequence[Buffer], base: Callable[[ImageHead, int], Buffer]
) -> Remade | None:
    """Return the object; None where this build of zstd makes other streams than the sender's.

    `old`: the versions of the own pages in `recipe.image()`, empty where it has none. `base`: the base of a slot; not
    asked for where the object has none. Raises FormatError where the recipe does not hold together.
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
    frames = encode_frames(pages, SEGMENT_PAGES_MAX, _compressors(head, base))
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


def _compressors(head: ImageHead, base: Callable[[ImageHead, int], Buffer]) -> Iterator[Compressor]:
    """What the writer of `store.md` compresses each frame with."""
    count = len(head.pages)
    if not head.bases:
        yield from repeat(compressor(b"", SEGMENT_PAGES_MAX * PAGE_BYTES))
    for begin in range(0, count, SEGMENT_PAGES_MAX):
        behind = b"".join(base(head, slot) for slot in range(begin, min(begin + SEGMENT_PAGES_MAX, count)))
        yield compressor(behind, min(count, SEGMENT_PAGES_MAX) * PAGE_BYTES)


def stands_alone(head: ImageHead) -> bool:
    """Whether an object names no parent, and has nothing in its seal that a recipe does not say."""
    return head.parent is None and not head.dictionary and head.frame_pages == SEGMENT_PAGES_MAX


def seal_recipe(recipe: Recipe, key: bytes, nonce: bytes, places: Places = no_places) -> bytes:
    """Return the recipe sealed under a key derived from that of its epoch; `nonce` is 24 random bytes.

    `places`: those of the pages of an image; asked of `recipe.before`.
    """
    fields: list[Value] = [1, recipe.nonce, recipe.head, recipe.digest, list(recipe.changes)]
    if (before := recipe.before) is not None:
        told = lists.tell(recipe.opened(), recipe.head, places(before))
        columns: list[Value] = [encode_rising(told.own), encode_column(told.first), told.frame]
        fields = [3, recipe.nonce, *columns, recipe.digest, list(recipe.changes), before.name, before.epoch]
    plain = encode(fields)
    return recipe.ref.epoch + nonce + seal(derive(key, "recipe"), nonce, plain, ad=recipe.ref.name)


def epoch_of(sealed: bytes) -> EpochId:
    """Return the epoch whose key a sealed recipe opens with; raises FormatError."""
    if len(sealed) < _EPOCH_BYTES + NONCE_BYTES:
        raise FormatError("a recipe is cut short")
    return EpochId(sealed[:_EPOCH_BYTES])


def open_recipe(sealed: bytes, name: ObjectName, key: bytes, places: Places = no_places) -> Recipe:
    """Return the recipe of the object `name`; raises FormatError, and whatever `places` raises (see `seal_recipe`)."""
    ref = Ref(name=name, epoch=epoch_of(sealed))
    nonce, rest = sealed[_EPOCH_BYTES : _EPOCH_BYTES + NONCE_BYTES], sealed[_EPOCH_BYTES + NONCE_BYTES :]
    plain = unseal(derive(key, "recipe"), nonce, rest, ad=name)
    before: Ref | None = None
    told: lists.Told | None = None
    head = b""
    match decode(plain, bytes_max=SYNC_MESSAGE_BYTES_MAX):
        case [1, bytes(inner), bytes(head), bytes(digest), list(changes)]:
            pass
        case [2, bytes(inner), bytes(head), bytes(digest), list(changes), bytes(other), bytes(epoch)]:
            before = _before(other, epoch)
        case [3, bytes(inner), own, first, bytes(frame), bytes(digest), list(changes), bytes(other), bytes(epoch)]:
            before = _before(other, epoch)
            pages = decode_rising(own, below=MEMORY_BYTES_MAX // PAGE_BYTES)
            told = lists.Told(own=pages, first=decode_column(first), frame=frame)
        case _:
            raise FormatError("a recipe is not in its form")
    parts = tuple(one for one in changes if isinstance(one, bytes))
    if len(inner) != NONCE_BYTES or len(digest) != 32 or len(parts) != len(changes):
        raise FormatError("a recipe is not in its form")
    if before is not None and told is not None:
        head = lists.heard(told, places(before))
    return Recipe(ref=ref, nonce=inner, head=head, digest=digest, changes=parts, before=before)


def _before(name: bytes, epoch: bytes) -> Ref:
    if len(name) != 32 or len(epoch) != _EPOCH_BYTES:
        raise FormatError("a recipe is not in its form")
    return Ref(name=ObjectName(name), epoch=EpochId(epoch))
