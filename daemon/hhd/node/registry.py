"""The registry joined with the store: where its pieces are kept, and how what it says comes into the lists.

Lists never load the document: `Shelf.show` copies what it says into the catalogue in the transaction of the edit. The
mark of what was shown lies beside the mark of what was kept; where the two differ, all is shown again.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from hhd.node import head_facts, listing
from hhd.node.listing import Facts
from hhd.store.catalogue import HALF_BYTES
from hhd.store.errors import DamagedStoreError
from hhd.store.group import GroupDocument
from hhd_protocol.codec import Value, decode_own, encode
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import DeviceId, SessionId, StatementId

if TYPE_CHECKING:  # `hhd ls` looks at names and marks only, and is quick because it does not load automerge.
    from hhd.registry.registry import Registry
    from hhd.registry.shelf import Kept, Shown
    from hhd.store.store import Store


def opened(store: Store) -> Registry:
    """Return the registry of a store; it reads the document when it is first asked something."""
    from hhd.registry.registry import Registry

    return Registry(StoreShelf(store))


def catch_up(store: Store) -> None:
    """Make the lists say what the document says, if they are behind."""
    if is_behind(store.shared):
        opened(store).show_again()


def is_behind(shared: GroupDocument) -> bool:
    """Say whether lists do not show the document as it is: two rows are compared."""
    mark = shared.mark()
    return mark is not None and _shown(shared)[0] != mark


def device_names(shared: GroupDocument) -> tuple[Mapping[bytes, str], int]:
    """Return the names of devices by the first half of their ids, and how many questions the document has."""
    _, names, questions = _shown(shared)
    return names, questions


class StoreShelf:
    """The port `hhd.registry.shelf.Shelf` of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @property
    def device(self) -> DeviceId:
        """This device."""
        return self._store.device

    def random(self, count: int) -> bytes:
        """Return random bytes."""
        return self._store.random(count)

    def transaction(self) -> AbstractContextManager[None]:
        """As the store's."""
        return self._store.transaction()

    def mark(self) -> bytes | None:
        """Return the mark of what is kept."""
        return self._store.shared.mark()

    def kept(self) -> Kept:
        """Return the pieces."""
        from hhd.registry.shelf import Kept

        pieces, lost = self._store.shared.pieces()
        return Kept(pieces=pieces, lost=lost)

    def append(self, piece: bytes, mark: bytes) -> None:
        """Keep one more piece."""
        self._store.shared.append(piece, mark)

    def replace(self, piece: bytes, mark: bytes) -> None:
        """Keep this piece instead of all others."""
        self._store.shared.replace(piece, mark)

    def show(self, shown: Shown, mark: bytes) -> None:
        """Copy what the document says into the lists."""
        store = self._store
        said = {
            _half(subject): Facts(facts.title, facts.archived, facts.picked, facts.asked)
            for subject, facts in shown.sessions.items()
        }
        heads = {_half(subject): facts.heads for subject, facts in shown.sessions.items()}
        if shown.whole:
            head_facts.show_all(store, heads)
            store.facts.refill((one, facts.encoded()) for one, facts in said.items() if facts != Facts())
            for session, raw in store.catalogue.sound_entries().items():
                left_out = head_facts.left_out(store, session) if heads.get(_begin(session)) else 0
                self._overlay(session, raw, said.get(_begin(session), Facts()), left_out)
        else:
            for half, facts in said.items():
                head_facts.show(store, half, heads[half])
                if facts == Facts():
                    store.facts.remove(half)
                else:
                    store.facts.put(half, facts.encoded())
                for session in self._sessions(half):
                    left_out = head_facts.left_out(store, session)
                    self._overlay(session, store.catalogue.get(session), facts, left_out)
        names: dict[Value, Value] = {_half(one): name for one, name in shown.names.items()}
        store.shared.show(encode([1, mark, names, shown.questions]))

    def still_shown(self) -> Shown:
        """Return what the lists say of the document."""
        from hhd.registry.registers import subject_of
        from hhd.registry.shelf import HeadFacts, SessionFacts, Shown

        sessions = {}
        heads = head_facts.still_shown(self._store)
        for half in self._store.facts.sound_entries().keys() | heads.keys():
            one = listing.facts(self._store, SessionId(StatementId(half)))
            sessions[subject_of("s", half)] = SessionFacts(
                title=one.title,
                archived=one.archived,
                picked=one.picked,
                asked=one.asked,
                heads=tuple(HeadFacts(head, *fact) for head, fact in heads.get(half, ())),
            )
        _, names, questions = _shown(self._store.shared)
        return Shown(
            sessions=sessions,
            names={subject_of("d", half): name for half, name in names.items()},
            questions=questions,
            whole=True,
        )

    def _sessions(self, half: bytes) -> list[SessionId]:
        try:
            return self._store.catalogue.begins_with(half)
        except DamagedStoreError:
            return []  # The next list describes them anew, with their facts.

    def _overlay(self, session: SessionId, raw: bytes | None, facts: Facts, left_out: int) -> None:
        """Change what is listed of a session if these facts do; what is damaged is left for the next list to mend."""
        try:
            before = None if raw is None else listing.decoded(raw)
        except FormatError:
            return
        if before is not None and (after := facts.over(before)._replace(left_out=left_out)) != before:
            self._store.catalogue.put(session, after.encoded())


def _half(subject: str) -> SessionId:
    from hhd.registry.registers import Subject, subject_id

    return SessionId(StatementId(subject_id(Subject(subject))))


def _begin(session: SessionId) -> SessionId:
    return SessionId(StatementId(session[:HALF_BYTES]))


def _shown(shared: GroupDocument) -> tuple[bytes | None, Mapping[bytes, str], int]:
    raw = shared.shown()
    try:
        match None if not raw else decode_own(raw):
            case [1, bytes(mark), dict(names), int(questions)]:
                found = {
                    half: name for half, name in names.items() if isinstance(half, bytes) and isinstance(name, str)
                }
                return mark, found, questions
    except FormatError:
        pass
    return None, {}, 0
