"""What the shared document says of single heads, as it was last shown: their names, and which are archived.

A head is named by the checkpoint that it ended in when it was given its name, and the name goes along as that line goes
on. Archived is a head as it stood: new work on it is listed again. Neither drops anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from hhd.base.errors import UserError
from hhd.store.catalogue import HALF_BYTES
from hhd.store.errors import DamagedStoreError
from hhd_protocol.codec import decode_own, encode
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import SessionId, StatementId

if TYPE_CHECKING:
    from hhd.store.store import Store
    from hhd_protocol.heads import Tip
    from hhd_protocol.ids import CheckpointId

VERSION = 1


class HeadFact(NamedTuple):
    """What is said of one head: its name, None if it has none, and whether it is archived."""

    name: str | None = None
    archived: bool = False


class HeadFacts:
    """What is said of the heads of one session; `said` by the first halves of their ids."""

    def __init__(self, said: Mapping[bytes, HeadFact]) -> None:
        self._said = said

    def __bool__(self) -> bool:
        return bool(self._said)

    def named_at(self, tip: Tip) -> CheckpointId | None:
        """Return the newest checkpoint with a name on a head's own part of the line; None if none has one."""
        return next((id for id in (tip.id, *tip.past) if self._name(id) is not None), None)

    def name(self, tip: Tip) -> str:
        """Return what a head is called: as that checkpoint is; "" if nothing."""
        found = self.named_at(tip) if self.named else None
        return "" if found is None else self._name(found) or ""

    def names(self, tips: Iterable[Tip]) -> dict[CheckpointId, str]:
        """Return the heads that have names, with these."""
        return {tip.id: name for tip in tips if (name := self.name(tip))}

    def _name(self, id: bytes) -> str | None:
        found = self._said.get(id[:HALF_BYTES])
        return None if found is None else found.name

    def archived(self, head: bytes) -> bool:
        """Whether the head that ends in this checkpoint is archived."""
        found = self._said.get(head[:HALF_BYTES])
        return found is not None and found.archived

    def all(self) -> list[tuple[bytes, HeadFact]]:
        """Return the first half of the id of each head with what is said of it, in order of the ids."""
        return sorted(self._said.items())

    @property
    def named(self) -> bool:
        """Whether any head has a name."""
        return any(fact.name is not None for fact in self._said.values())


def of(store: Store, session: SessionId) -> HeadFacts:
    """Return what is said of a session's heads; nothing if that is damaged, until the document is shown again."""
    said = {}
    try:
        for key, raw in store.head_facts.under(session[:HALF_BYTES]).items():
            match decode_own(raw):
                case [1, str() | None as name, bool(archived)]:
                    said[bytes(key[HALF_BYTES:])] = HeadFact(name, archived)
    except (DamagedStoreError, FormatError):
        store.shared.show(b"")
    return HeadFacts(said)


def left_out(store: Store, session: SessionId) -> int:
    """Return how many ends of a session's lines are archived."""
    facts = of(store, session)
    if not facts:
        return 0
    from hhd.node.ends import ends  # Seldom needed; every list imports this.

    try:
        return sum(facts.archived(end) for end in ends(store, session))
    except UserError:
        return 0


def show(store: Store, session: bytes, heads: Iterable[tuple[bytes, str | None, bool]]) -> None:
    """Show these heads of a session and no others; all by the first halves of their ids. Within a transaction."""
    said = {_key(session, head): encode([VERSION, name, archived]) for head, name, archived in heads}
    try:
        before = store.head_facts.under(session)
    except DamagedStoreError:
        before = {}
    for key in before.keys() - said.keys():
        store.head_facts.remove(key)
    for key, value in said.items():
        if before.get(key) != value:
            store.head_facts.put(key, value)


def show_all(store: Store, heads: Mapping[SessionId, Iterable[tuple[bytes, str | None, bool]]]) -> None:
    """Show these heads, by the first half of their session's id, and no others of any."""
    store.head_facts.refill(
        (_key(session, head), encode([VERSION, name, archived]))
        for session, several in heads.items()
        for head, name, archived in several
    )


def still_shown(store: Store) -> dict[bytes, list[tuple[bytes, HeadFact]]]:
    """Return what is shown of all heads, by the first half of their session's id, as far as it can be read."""
    halves = {bytes(key[:HALF_BYTES]) for key in store.head_facts.sound_entries()}
    return {half: of(store, SessionId(StatementId(half))).all() for half in halves}


def _key(session: bytes, head: bytes) -> SessionId:
    return SessionId(StatementId(session[:HALF_BYTES] + head[:HALF_BYTES]))
