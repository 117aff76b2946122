"""One automerge document: entries of text by key, whose changes merge; the only file that knows automerge.

Automerge keeps the history of every key for ever, and loading takes time for each change. So a document has a *number*
and begins with one change, its *base*, made of nothing but the entries that its predecessor came to: the same entries
make the same base on every device. Documents of the same base merge by automerge, others by `Registers.merge`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from automerge.core import ROOT, Message, ScalarType, SyncState
from automerge.core import Document as Automerge

from hhd.registry.door import insist_on_bounded_changes, insist_on_bounded_message
from hhd_protocol.codec import Value, decode, encode
from hhd_protocol.errors import FormatError, NewerVersionError

VERSION = 1
ACTOR_BYTES = 8
"""Of the name of who changes: drawn at each opening, since nobody may ever count on from a state that was lost."""

_MARK = "hhd/registry"


class Document:
    """See the module. `number` counts beginnings; `base` is the hash of the first change."""

    def __init__(self, number: int, inner: Automerge, base: bytes) -> None:
        self.number, self._inner, self.base = number, inner, base

    @classmethod
    def begin(cls, number: int, entries: Mapping[str, str]) -> Document:
        """Make the document of this number that begins with `entries`, in one change that follows from them alone."""
        actor = hashlib.sha256(encode([number, as_value(entries)])).digest()[:ACTOR_BYTES]
        inner = Automerge(actor_id=actor)
        with inner.transaction() as change:
            change.put(ROOT, _MARK, ScalarType.Str, str(number))
            for key in sorted(entries):
                change.put(ROOT, key, ScalarType.Str, entries[key])
        return cls(number, inner, inner.get_heads()[0])

    @classmethod
    def load(cls, raw: bytes, changes: Iterable[bytes] = ()) -> Document:
        """Read what `save` gave, and changes since; raises FormatError.

        Changes that rest on others which are not here are left out: compare the heads.
        """
        match decode(raw):
            case [1, int(number), bytes(base), bytes(saved)]:
                with _as_format_error("the saved document"):
                    return cls(number, Automerge.load(saved + b"".join(changes)), base)
            case [int(version), *_] if version > VERSION:
                raise NewerVersionError("the saved document was written by a newer hhd")
        raise FormatError("the saved document is not in the form it was written in")

    @staticmethod
    def age_of(raw: bytes) -> tuple[int, bytes]:
        """Return the `age` of what `save` gave, without reading the rest; raises FormatError."""
        match decode(raw):
            case [1, int(number), bytes(base), bytes()]:
                return number, base
        raise FormatError("the saved document is not in the form it was written in")

    def save(self) -> bytes:
        """Return the whole document, packed."""
        return encode([VERSION, self.number, self.base, self._inner.save()])

    @property
    def age(self) -> tuple[int, bytes]:
        """What tells documents of different beginnings apart; of two the greater is gone on with."""
        return self.number, self.base

    def heads(self) -> tuple[bytes, ...]:
        """Return the hashes of the changes that nothing here follows; equal documents have equal heads."""
        return tuple(sorted(self._inner.get_heads()))

    def begin_life(self, actor: bytes) -> None:
        """Change under the name `actor` from now on."""
        assert len(actor) == ACTOR_BYTES
        self._inner.set_actor(actor)

    def entries(self) -> Iterator[tuple[str, str]]:
        """Yield every entry that is text, in no order; whatever else is in the document is passed over."""
        with _as_format_error("the document"):
            for key, (value, _) in zip(self._inner.keys(ROOT), self._inner.values(ROOT), strict=True):
                if type(value) is tuple and value[0] == ScalarType.Str and type(value[1]) is str:
                    yield key, value[1]

    def base_entries(self) -> dict[str, str]:
        """Return the entries that the document began with."""
        keys, values = self._inner.keys(ROOT, [self.base]), self._inner.values(ROOT, [self.base])
        pairs = ((key, value) for key, (value, _) in zip(keys, values, strict=True) if key != _MARK)
        return {key: str(value[1]) for key, value in pairs if isinstance(value, tuple)}

    def size(self) -> int:
        """Return how many entries of any kind there are."""
        return self._inner.length(ROOT)

    def change(self, put: Mapping[str, str], remove: Iterable[str]) -> None:
        """Put and remove entries, in one change."""
        with self._inner.transaction() as change:
            for key in remove:
                if change.get(ROOT, key) is not None:
                    change.delete(ROOT, key)
            for key, text in put.items():
                change.put(ROOT, key, ScalarType.Str, text)

    def changes(self, since: Iterable[bytes] | None = None) -> list[bytes]:
        """Return the changes that those heads do not have, or all after the base."""
        found = self._inner.get_changes([self.base] if since is None else list(since))
        return [bytes(one.bytes) for one in found if one.hash != self.base]

    def apply(self, changes: list[bytes]) -> None:
        """Take in changes of another document with the same base; raises FormatError with nothing changed.

        Those that rest on others which are not here are left out.
        """
        insist_on_bounded_changes(b"".join(changes))
        with _as_format_error("a change of the shared document"):
            base = self._inner.fork([self.base])
            self._inner.merge(Automerge.load(base.save() + b"".join(changes)))

    def message(self, state: SyncState) -> bytes | None:
        """Return the next message of automerge's own protocol, None if there is nothing to say now."""
        message = self._inner.generate_sync_message(state)
        return None if message is None else message.encode()

    def receive(self, state: SyncState, raw: bytes) -> None:
        """Take in a peer's message; raises FormatError, after which this document must not be used again."""
        insist_on_bounded_message(raw)
        with _as_format_error("a message about the shared document"):
            self._inner.receive_sync_message(state, Message.decode(raw))


def as_value(entries: Mapping[str, str]) -> Value:
    """Return entries as a value for encoding."""
    return dict(entries.items())


def new_sync_state() -> SyncState:
    """Return what automerge remembers of one peer on one link, about documents of one base."""
    return SyncState()


@contextmanager
def _as_format_error(what: str) -> Iterator[None]:
    """Turn whatever automerge makes of bytes that it cannot read into one sentence.

    It raises bare `Exception`, and a panic of its Rust code is a `BaseException` of the binding.
    """
    try:
        yield
    except (KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError, FormatError):
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise FormatError(f"{what} is damaged, or not one of automerge") from error
