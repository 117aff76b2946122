"""What two devices say to each other until their shared documents are equal.

    peer = Peer.of(summary)                # of the other side, from the greeting of the link
    while (raw := message_for(registry, peer)) is not None: send(raw)
    receive(registry, peer, raw)

Heads are compared first: two equal documents cost no message. Documents of one base speak automerge's protocol;
between two bases the greater goes over whole, and the other side merges its own into it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hhd.registry.document import as_value, new_sync_state
from hhd.registry.registry import Registry
from hhd_protocol.codec import Value, decode, encode
from hhd_protocol.errors import FormatError, NewerVersionError
from hhd_protocol.limits import REGISTRY_ENTRIES_MAX, REGISTRY_HEADS_MAX, REGISTRY_MESSAGE_BYTES_MAX

VERSION = 1
_HASH_BYTES = 32


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Which document a device has: its number, its base, its heads."""

    number: int
    base: bytes
    heads: tuple[bytes, ...]

    @property
    def age(self) -> tuple[int, bytes]:
        """As `Document.age`."""
        return self.number, self.base


@dataclass(kw_only=True)
class Peer:
    """What is known of a peer's document on one link; forgotten with the link.

    `theirs`: the last they said, None before that. `told`: the last we said. `gave_whole`: the age of the document that
    went over whole. `owed`: they gave us one and do not know yet that we have it, so they would say nothing more.
    """

    theirs: Summary | None = None
    told: Summary | None = None
    gave_whole: tuple[int, bytes] | None = None
    owed: bool = False
    speaking: bool = False
    sync: Any = field(default_factory=new_sync_state)
    sync_age: tuple[int, bytes] | None = None

    @classmethod
    def of(cls, summary: bytes) -> Peer:
        """Return what is known of a peer that sent this summary; raises FormatError."""
        theirs, body = _decoded(summary)
        if body is not None:
            raise FormatError("a summary of the shared document says more than that")
        return cls(theirs=theirs)


def summary(registry: Registry) -> bytes:
    """Return what a device says of its document when a link begins."""
    return _encoded(_mine(registry), None)


def copy(registry: Registry) -> bytes:
    """Return the whole document, for another device or for safekeeping: what `merge_from` takes."""
    document = registry.refresh()
    changes: list[Value] = list(document.changes())
    return _encoded(_mine(registry), [as_value(document.base_entries()), changes])


def merge_from(registry: Registry, raw: bytes) -> bool:
    """Take in what `copy` gave and say whether that changed anything; raises FormatError, with nothing changed."""
    theirs, body = _decoded(raw)
    match body:
        case [dict(entries), list(changes)]:
            return _adopt(registry, theirs, entries, changes)
    raise FormatError("this is no copy of the shared document")


def message_for(registry: Registry, peer: Peer) -> bytes | None:
    """Return the next message for a peer, None while there is nothing to say."""
    mine = _mine(registry)
    raw = _next(registry, peer, mine)
    if raw is None and peer.owed:
        raw = _said(peer, mine, None)
    if raw is not None:
        peer.owed = False
    return raw


def _next(registry: Registry, peer: Peer, mine: Summary) -> bytes | None:
    if peer.theirs is None or peer.theirs.age > mine.age:
        if peer.told == mine:
            return None
        return _said(peer, mine, None)
    if peer.theirs.age < mine.age:
        if peer.gave_whole == mine.age:
            return None
        peer.gave_whole = mine.age
        return copy(registry)
    if peer.sync_age != mine.age:
        peer.sync, peer.sync_age, peer.speaking = new_sync_state(), mine.age, False
    if not peer.speaking and peer.theirs.heads == mine.heads:
        return None
    raw = registry.refresh().message(peer.sync)
    peer.speaking = True
    return None if raw is None else _said(peer, mine, raw)


def receive(registry: Registry, peer: Peer, raw: bytes) -> bool:
    """Take in a message and say whether the document changed; raises FormatError, which costs the peer its link."""
    theirs, body = _decoded(raw)
    peer.theirs = theirs
    match body:
        case None:
            return False
        case bytes(message):
            mine = _mine(registry)
            if theirs.age != mine.age:
                return False  # Begun before one of us went on to another document.
            if peer.sync_age != mine.age:
                peer.sync, peer.sync_age = new_sync_state(), mine.age
            peer.speaking = True
            return registry.take(lambda document: document.receive(peer.sync, message))
        case [dict(entries), list(changes)]:
            changed = _adopt(registry, theirs, entries, changes)
            peer.owed = True
            return changed
    raise FormatError("a message about the shared document is in no form known here")


def _adopt(registry: Registry, theirs: Summary, entries: dict[Value, Value], changes: list[Value]) -> bool:
    texts = {key: text for key, text in entries.items() if isinstance(key, str) and isinstance(text, str)}
    several = [one for one in changes if isinstance(one, bytes)]
    if len(texts) < len(entries) or len(several) < len(changes) or len(texts) > REGISTRY_ENTRIES_MAX:
        raise FormatError("a copy of the shared document holds something else than entries and changes")
    return registry.adopt(texts, theirs.number, theirs.base, several)


def _mine(registry: Registry) -> Summary:
    document = registry.refresh()
    return Summary(number=document.number, base=document.base, heads=document.heads())


def _said(peer: Peer, mine: Summary, body: Value) -> bytes:
    peer.told = mine
    return _encoded(mine, body)


def _encoded(mine: Summary, body: Value) -> bytes:
    return encode([VERSION, mine.number, mine.base, list(mine.heads), body])


def _decoded(raw: bytes) -> tuple[Summary, Value]:
    match decode(raw, bytes_max=REGISTRY_MESSAGE_BYTES_MAX):
        case [1, int(number), bytes(base), list(heads), body] if len(base) == _HASH_BYTES and number in range(2**48):
            found = tuple(one for one in heads if isinstance(one, bytes) and len(one) == _HASH_BYTES)
            if len(found) == len(heads) <= REGISTRY_HEADS_MAX and not isinstance(number, bool):
                return Summary(number=number, base=base, heads=found), body
        case [int(version), *_] if version > VERSION:
            raise NewerVersionError("a message about the shared document is of a newer hhd")
    raise FormatError("a message about the shared document is in no form known here")
