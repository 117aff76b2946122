"""Where the pages of recent images are: each is found from the one before it, not from the beginning of its era.

A step's object names only what it changed, so the places of its pages are those of its parent with a few put over them.
Who works through one image after the other keeps those of the last; `Restore.places` finds the same from nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from hhd.store.opened import Opened, damaged
from hhd_protocol.errors import FormatError
from hhd_protocol.limits import CHAIN_MAX
from hhd_protocol.objects import Ref

PLACES_MAX = 1 << 16
"""Places kept, of all images together: some 6 MB, the last images of 32 sessions of 8 MiB. One larger image is kept."""

Place = tuple[Ref, int]
"""The object that owns a page, and its slot there."""


@dataclass(frozen=True, kw_only=True)
class _Image:
    places: Mapping[int, Place] = field(repr=False)
    links: int
    """How many lists it is made of: no chain is longer than `CHAIN_MAX`."""


class Placed:
    """The places of the images asked for last."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Ref, _Image] = OrderedDict()
        self._count = 0

    def of(self, ref: Ref, open_object: Callable[[Ref], Opened]) -> Mapping[int, Place]:
        """Return the place of each page of the image of `ref`; raises DamagedStoreError, ThinnedError."""
        links: list[Opened] = []
        at: Ref | None = ref
        while at is not None and at not in self._kept:
            if len(links) > CHAIN_MAX:
                raise damaged(ref, FormatError("its chain of lists does not end"))
            links.append(open_object(at))
            at = links[-1].head.parent
        before = _Image(places={}, links=0) if at is None else self._kept[at]
        if at is not None:
            self._kept.move_to_end(at)
        if not links:
            return before.places
        if before.links + len(links) > CHAIN_MAX + 1:
            raise damaged(ref, FormatError("its chain of lists does not end"))
        places = dict(before.places)
        for opened in reversed(links):
            _put_over(places, opened, ref, open_object)
        self._keep(ref, _Image(places=places, links=before.links + len(links)))
        return places

    def _keep(self, ref: Ref, image: _Image) -> None:
        self._kept[ref] = image
        self._count += len(image.places)
        while self._count > PLACES_MAX and len(self._kept) > 1:
            _, gone = self._kept.popitem(last=False)
            self._count -= len(gone.places)


def _put_over(places: dict[int, Place], opened: Opened, whose: Ref, open_object: Callable[[Ref], Opened]) -> None:
    """Change the places of an image to those of the next one."""
    head, ref = opened.head, opened.ref
    for page in head.gone:
        places.pop(page, None)
    for slot, page in enumerate(head.pages):
        places[page] = ref, slot
    owners = [opened, *(open_object(one) for one in head.refs)] if head.given else []
    for page, index, slot in zip(head.given, head.given_objects, head.given_slots, strict=True):
        if slot >= len(owners[index].head.pages):
            raise damaged(whose, FormatError("its list names a slot that an object does not have"))
        places[page] = owners[index].ref, slot
