"""Captures in the store: pieces sealed many to an object, each once in the line of captures of a session.

A capture is one object with a root; the pieces it names are its own or lie in the few objects it refers to. A
checkpoint names it by reference, so what `gc` frees and `check` visits follows from heads, as for images and logs.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable

from hhd.store.checkpoints import capture_ref as capture_ref
from hhd.store.errors import DamagedStoreError
from hhd.store.families import Family
from hhd.store.opened import damaged
from hhd.store.reading import Reader
from hhd_protocol.crypto import NONCE_BYTES, content_id
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import ObjectName, PageId
from hhd_protocol.limits import PIECES_FRAMES_MAX, PIECES_OBJECT_MAX, WORKSPACE_PIECE_BYTES
from hhd_protocol.objects import Ref, object_name, seal_object
from hhd_protocol.pieces import PiecesHead, encode_frame, encode_head
from hhd_protocol.workspace import Capture
from hhd_protocol.workspace_encoding import decode_capture, encode_capture

OBJECT_BYTES = 8 * 1024 * 1024
"""Compressed pieces of one object: what a capture of any size holds in memory, twice."""

SMALL_BYTES = 4 * 1024 * 1024
"""Of what a capture needs of an object: one with more is not written anew to save a reference."""

SMALL_OBJECTS_MAX = 32
"""Small objects that a capture refers to (32 bytes each); with more, the smaller half goes into its own object."""

_FRAMES_KEPT = 8
"""Decoded frames (1 MiB each) that a reader holds: files are read in the order they were put."""

Place = tuple[Ref, int]
"""An object, and which of its pieces."""


def workspace_of(ref: Ref) -> bytes:
    """Return what a checkpoint says of a capture."""
    return ref.name + ref.epoch


class CaptureReader:
    """Reads one capture, and the pieces it names."""

    def __init__(self, reader: Reader, family: Family, ref: Ref) -> None:
        """Raises DamagedStoreError if `ref` is no capture, ThinnedError if it is not here."""
        self._reader, self._family, self.ref = reader, family, ref
        self._frames: OrderedDict[tuple[Ref, int], list[bytes]] = OrderedDict()
        self._heads: dict[Ref, PiecesHead] = {}
        self.root = self.head(ref).root
        if not self.root:
            raise damaged(ref, FormatError("it is no capture"))
        self._places: dict[PageId, Place] | None = None

    def head(self, ref: Ref) -> PiecesHead:
        """Return the head of an object of pieces."""
        if ref not in self._heads:
            self._heads[ref] = self._reader.pieces_head(ref)
        return self._heads[ref]

    def places(self) -> dict[PageId, Place]:
        """Return where each piece is that the capture may name."""
        if self._places is None:
            self._places = {
                one: (ref, slot)
                for ref in (*self.head(self.ref).refs, self.ref)
                for slot, one in enumerate(self.head(ref).ids)
            }
        return self._places

    def capture(self) -> Capture:
        """Return the capture; raises DamagedStoreError."""
        try:
            return decode_capture(self.root, self.piece)
        except FormatError as error:
            raise damaged(self.ref, error) from error

    def piece(self, one: PageId) -> bytes:
        """Return a piece, proven to be the one of that id; raises DamagedStoreError."""
        place = self.places().get(one)
        if place is None:
            raise damaged(self.ref, FormatError("it names a piece that is in none of its objects"))
        ref, slot = place
        head = self.head(ref)
        frame, first = 0, 0
        while slot >= first + head.frames[frame]:
            first += head.frames[frame]
            frame += 1
        found = self._frame(ref, head, frame, first)[slot - first]
        if content_id(self._family.page_key, b"piece", found) != one:
            raise damaged(ref, FormatError("a piece is not the one of its id"))
        return found

    def _frame(self, ref: Ref, head: PiecesHead, frame: int, first: int) -> list[bytes]:
        key = ref, frame
        if key in self._frames:
            self._frames.move_to_end(key)
            return self._frames[key]
        lengths = head.lengths[first : first + head.frames[frame]]
        found = self._frames[key] = self._reader.pieces_frame(ref, frame, lengths)
        if len(self._frames) > _FRAMES_KEPT:
            self._frames.popitem(last=False)
        return found


class CaptureWriter:
    """Takes the pieces of one capture and seals them; `last` is the capture before it.

    `begin` wraps the write of a full object, which becomes durable by itself: a large capture would hold a transaction
    for long. What nothing came to refer to, `gc` frees. `finish` writes within the caller's transaction.
    """

    def __init__(
        self,
        family: Family,
        keep: Callable[[Ref, bytes], None],
        random: Callable[[int], bytes],
        last: CaptureReader | None = None,
    ) -> None:
        self._family, self._keep, self._random, self._last = family, keep, random, last
        self._known: dict[PageId, Place] = dict(last.places()) if last is not None else {}
        self._fresh: dict[PageId, int] = {}
        self._waiting: list[bytes] = []
        self._waiting_ids: list[PageId] = []
        self._waiting_bytes = 0
        self._segments: list[bytes] = []
        self._segments_bytes = 0
        self._ids: list[PageId] = []
        self._lengths: list[int] = []
        self._frames: list[int] = []
        self.new: list[PageId] = []
        """Pieces that the capture before has not."""
        self.made: list[ObjectName] = []
        """Objects that were put, in this order."""

    def put(self, raw: bytes) -> PageId:
        """Take a piece and return its id; one that is there already costs nothing."""
        one = content_id(self._family.page_key, b"piece", raw)
        if one not in self._known and one not in self._fresh:
            self.new.append(one)
            self._add(one, raw)
        return one

    def finish(self, capture: Capture) -> Ref:
        """Seal what is left with the root of `capture`, and return the capture; `last` again if it is the same."""
        listed: set[PageId] = set()

        def put(raw: bytes) -> PageId:
            one = self.put(raw)
            listed.add(one)
            return one

        root = encode_capture(capture, put)
        if self._last is not None and not self.new and root == self._last.root:
            return self._last.ref
        refs = self._refs(capture.pieces() | listed)
        return self._seal(refs, root)

    def _add(self, one: PageId, raw: bytes) -> None:
        if self._waiting_bytes + len(raw) > WORKSPACE_PIECE_BYTES:
            self._close_frame()
        if (
            self._segments_bytes >= OBJECT_BYTES
            or len(self._segments) >= PIECES_FRAMES_MAX - 1
            or len(self._ids) + len(self._waiting) >= PIECES_OBJECT_MAX
        ):
            self._close_frame()
            self._seal((), b"")
        self._fresh[one] = len(raw)
        self._waiting.append(raw)
        self._waiting_ids.append(one)
        self._waiting_bytes += len(raw)

    def _close_frame(self) -> None:
        if not self._waiting:
            return
        segment = encode_frame(self._waiting)
        self._segments.append(segment)
        self._segments_bytes += len(segment)
        self._frames.append(len(self._waiting))
        self._ids += self._waiting_ids
        self._lengths += map(len, self._waiting)
        self._waiting, self._waiting_ids, self._waiting_bytes = [], [], 0

    def _seal(self, refs: Iterable[Ref], root: bytes) -> Ref:
        self._close_frame()
        head = PiecesHead(refs=list(refs), ids=self._ids, lengths=self._lengths, frames=self._frames, root=root)
        key = self._family.key(self._family.epoch)
        raw = seal_object(key, self._random(NONCE_BYTES), [encode_head(head), *self._segments])
        ref = Ref(name=object_name(raw), epoch=self._family.epoch)
        self._keep(ref, raw)
        self.made.append(ref.name)
        for slot, one in enumerate(self._ids):
            self._known[one] = (ref, slot)
            self._fresh.pop(one, None)
        self._segments, self._segments_bytes = [], 0
        self._ids, self._lengths, self._frames = [], [], []
        return ref

    def _refs(self, used: Collection[PageId]) -> list[Ref]:
        """The objects that a capture of the pieces `used` refers to, after taking over what small ones hold of it."""
        live = self._live(used)
        sizes = {ref: self._bytes(ref, pieces) for ref, pieces in live.items()}
        small = sorted((ref for ref in live if sizes[ref] < SMALL_BYTES), key=lambda ref: sizes[ref])
        if len(small) > SMALL_OBJECTS_MAX and self._last is not None:
            for ref in small[: len(small) // 2]:
                for one in live[ref]:
                    raw = self._last.piece(one)
                    del self._known[one]
                    self._add(one, raw)
            live = self._live(used)
        return list(live)

    def _live(self, used: Collection[PageId]) -> dict[Ref, list[PageId]]:
        live: dict[Ref, list[PageId]] = {}
        for one in used:
            place = self._known.get(one)
            if place is not None:
                live.setdefault(place[0], []).append(one)
            elif one not in self._fresh:
                raise DamagedStoreError("A capture names a piece that was never put.")
        return live

    def _bytes(self, ref: Ref, pieces: Collection[PageId]) -> int:
        if self._last is None or ref not in {*self._last.head(self._last.ref).refs, self._last.ref}:
            return SMALL_BYTES  # Made for this capture: full.
        head = self._last.head(ref)
        return sum(head.lengths[self._known[one][1]] for one in pieces)
