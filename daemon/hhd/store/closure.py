"""Which objects the content of a checkpoint needs: found from heads alone, without looking at a page.

An object is used *as a list* (its parent's list and the objects its list names are needed too) or *for content* (only
the bases and the dictionary of its frames are). A list may still name objects whose pages were all replaced since the
last list that stood alone: they count as needed. What is freed and what is checked both go by this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hhd_protocol.images import ImageHead
from hhd_protocol.logs import LogHead
from hhd_protocol.objects import Ref
from hhd_protocol.pieces import PiecesHead

Head = ImageHead | LogHead | PiecesHead


class Closure:
    """Gathers what a growing set of roots needs; `head` returns an object's head, None if it cannot be read."""

    def __init__(self, head: Callable[[Ref], Head | None]) -> None:
        self._head = head
        self._lists: set[Ref] = set()
        self.needed: set[Ref] = set()
        self._heads: dict[Ref, Head | None] = {}

    def add(self, roots: Iterable[Ref]) -> None:
        """Add what `roots`, used as lists, need."""
        waiting = [(root, True) for root in roots]
        while waiting:
            ref, as_list = waiting.pop()
            if ref in (self._lists if as_list else self.needed):
                continue
            if as_list:
                self._lists.add(ref)
            self.needed.add(ref)
            if ref not in self._heads:
                self._heads[ref] = self._head(ref)
            head = self._heads[ref]
            if head is None:
                continue
            if as_list:  # Bases and dictionary are among them.
                waiting += [(one, False) for one in head.refs if one not in self.needed]
                waiting += [(head.parent, True)] if head.parent else []
            elif isinstance(head, ImageHead):
                inside = {number for number in head.bases if number}
                inside.update((head.dictionary,) if head.dictionary else ())
                waiting += [(head.ref(number), False) for number in inside]
