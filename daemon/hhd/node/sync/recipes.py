"""Objects of images as differences to their parents, for peers that have those (`spec/sync.md`, Rebuilding)."""

from __future__ import annotations

from collections import OrderedDict

from hhd.store.errors import DamagedStoreError, MissingError
from hhd.store.opened import Opened
from hhd.store.openings import Openings
from hhd.store.restore import SLOT_BITS, Restore
from hhd.store.store import Store
from hhd_protocol.crypto import NONCE_BYTES, SealError
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import CheckpointId, DeviceId, ObjectName, SessionId
from hhd_protocol.images import ImageHead, decode_head
from hhd_protocol.limits import IMAGE_OBJECT_PAGES_MAX, SYNC_PART_BYTES
from hhd_protocol.objects import Ref, SealedObject
from hhd_protocol.sync import recipe as recipes
from hhd_protocol.sync.messages import Rebuild

WORTH_BYTES, WORTH_SHARE = 1024, 0.75
"""A recipe is sent where it saves a quarter and a kilobyte: making the object again costs the receiver some time."""
OBJECT_BYTES_MAX = 1024 * 1024
"""Larger objects go as they are: their pages were not small changes. One that begins an era has every page."""
ERA_BYTES_MAX = 32 * 1024 * 1024
"""Above this an image goes whole, all its objects: making it again at the other side would take seconds."""
SMALL_BYTES = 8 * 1024
"""Of a smaller object it is guessed by its head whether a recipe would be worth it; a wrong guess costs no more."""
KEPT = 16
"""Recipes kept: each peer is sent the same."""


class Recipes:
    """Makes recipes out of one store, and objects out of recipes."""

    def __init__(self, store: Store, openings: Openings) -> None:
        self._store, self._openings = store, openings
        self._made: OrderedDict[tuple[ObjectName, bool], bytes | None] = OrderedDict()
        """By the object, and whether it was known which checkpoint brought it."""
        self.refused: set[DeviceId] = set()
        """Peers that could not make an object: they get whole ones."""

    def recipe(
        self, peer: DeviceId, session: SessionId, name: ObjectName, brought_by: CheckpointId | None = None
    ) -> Rebuild | None:
        """Return how `peer`, which has the parent, makes an object again; None where sending it whole is as well.

        `brought_by`: the checkpoint that the object is new in, where the peer has the parent of that.
        """
        if peer in self.refused:
            return None
        known = name, brought_by is not None
        if known not in self._made:
            try:
                self._made[known] = self._make(session, name, brought_by)
            except (DamagedStoreError, MissingError, FormatError):
                self._made[known] = None
            while len(self._made) > KEPT:
                self._made.popitem(last=False)
        sealed = self._made.get(known)
        return None if sealed is None else Rebuild(name=name, session=session, recipe=sealed)

    def was_given(self, name: ObjectName) -> bool:
        """Whether an object went out as a recipe not long ago."""
        return any(self._made.get((name, told)) is not None for told in (False, True))

    def rebuilt(self, message: Rebuild) -> bytes | None:
        """Return the object of a recipe; None where it cannot be made here. Raises FormatError where it is wrong."""
        store = self._store
        try:
            family = store.family(message.session)
            key = family.key(recipes.epoch_of(message.recipe))
        except MissingError:
            return None
        reader = store.reader(family.id, self._openings)
        try:
            recipe = recipes.open_recipe(message.recipe, message.name, key, reader.placed)
        except (DamagedStoreError, MissingError):
            return None
        head = recipe.opened()
        if len(head.pages) > IMAGE_OBJECT_PAGES_MAX:
            raise FormatError("a recipe is for too many pages")
        try:
            old = self._pages_in(message.session, recipe.image(), head)
            bases, alone = self._bases(message.session, head)
        except (DamagedStoreError, MissingError):
            return None
        made = recipes.remake(recipe, key, old=old, base=lambda _, slot: bases[slot])
        if made is None:
            return None
        if made.frames is not None and alone:
            self._openings.put(Opened(recipe.ref, SealedObject(made.raw), key), made.frames)
        return made.raw

    def _make(self, session: SessionId, name: ObjectName, brought_by: CheckpointId | None) -> bytes | None:
        store = self._store
        size = store.objects.size(name)
        if not WORTH_BYTES < size <= (OBJECT_BYTES_MAX if brought_by is None else ERA_BYTES_MAX):
            return None
        family = store.family(session)
        raw = store.objects.raw(name)
        assert raw is not None
        sealed = SealedObject(raw)
        opened = None
        for epoch in [family.epoch, *(one for one in family.epochs if one != family.epoch)]:
            try:
                opened = epoch, sealed.segment(family.key(epoch), 0)
                break
            except SealError:
                continue
        if opened is None:
            return None
        epoch, first = opened
        head = decode_head(first)
        before = self._image_before(head, brought_by)
        if before is not None and brought_by is not None and self._brought_bytes(brought_by) > ERA_BYTES_MAX:
            return None
        if not head.pages or (before is None and (head.parent is None or not head.bases or size > OBJECT_BYTES_MAX)):
            return None
        key = family.key(epoch)
        ref = Ref(name=name, epoch=epoch)
        if before is None and not self._is_worth(session, head, size - len(first)):
            return None
        segments = [sealed.segment(key, number) for number in range(sealed.count)]
        reader = store.reader(family.id, self._openings)
        _, new = reader.own_pages(ref)
        nonce = raw[2 + 4 * sealed.count : 2 + 4 * sealed.count + NONCE_BYTES]
        image = before or head.parent
        assert image is not None
        old = self._pages_in(session, image, head)
        made = recipes.make(ref, nonce=nonce, segments=segments, old=old, new=new, before=before)
        result = recipes.seal_recipe(made, key, store.random(NONCE_BYTES), reader.placed)
        if len(result) > min(WORTH_SHARE * size, size - WORTH_BYTES, 3 * SYNC_PART_BYTES):
            return None
        return result

    def _is_worth(self, session: SessionId, head: ImageHead, body_bytes: int) -> bool:
        """Whether enough of an object could be spared: where a page's base is its parent's version, nothing is.

        That is so for most pages at most steps, and a recipe that is not sent costs half of all that is done here.
        """
        if body_bytes >= SMALL_BYTES:
            return True
        assert head.parent is not None
        reader = self._store.reader(self._store.session(session).family, self._openings)
        places = reader.placed(head.parent)
        nearer = 0
        for page, base in zip(head.pages, head.bases, strict=True):
            place = places.get(page)
            nearer += place is not None and (not base or place[0] != head.ref(base))
        return nearer * body_bytes >= len(head.pages) * WORTH_BYTES

    def _brought_bytes(self, checkpoint: CheckpointId) -> int:
        """How many bytes the objects have that are new in a checkpoint."""
        return sum(map(self._store.objects.size, self._store.checkpoint(checkpoint).objects))

    def _image_before(self, head: ImageHead, brought_by: CheckpointId | None) -> Ref | None:
        """The image that one which stands alone comes after; None where the head has a parent, or none is known."""
        if brought_by is None or not recipes.stands_alone(head):
            return None
        for parent in self._store.checkpoint(brought_by).parents:
            if (image := self._store.checkpoint(parent).payload.image) is not None:
                return image
        return None

    def _pages_in(self, session: SessionId, image: Ref, head: ImageHead) -> list[memoryview | bytes]:
        """The versions of the own pages in another image; empty bytes where it has none."""
        reader = self._store.reader(self._store.session(session).family, self._openings)
        places = reader.placed(image)
        restore = Restore(reader.open)
        found = (places.get(page) for page in head.pages)
        return _read(restore, [None if one is None else restore.number(one[0]) << SLOT_BITS | one[1] for one in found])

    def _bases(self, session: SessionId, head: ImageHead) -> tuple[list[memoryview | bytes], bool]:
        """The base of each slot; empty bytes for a page that has none. And whether no base has a base of its own."""
        restore = Restore(self._store.reader(self._store.session(session).family, self._openings).open)
        places: list[int | None] = []
        if not head.bases:
            return [], True
        for page, base in zip(head.pages, head.bases, strict=True):
            number = restore.number(head.ref(base)) if base else 0
            places.append(number << SLOT_BITS | restore.opened[number].slot_of(page) if base else None)
        found = (restore.opened[place >> SLOT_BITS].is_based(place & 0xFFFF) for place in places if place is not None)
        alone = not any(found)
        return _read(restore, places), alone


def _read(restore: Restore, places: list[int | None]) -> list[memoryview | bytes]:
    """The pages at these places; empty bytes where there is none."""
    for place in places:
        if place is not None:
            restore.opened[place >> SLOT_BITS].want((place & 0xFFFF,))
    restore.decode()
    return [b"" if place is None else restore.page(place) for place in places]
