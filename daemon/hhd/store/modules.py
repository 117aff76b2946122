"""Instrumented modules, each kept once by its hash, however many sessions run it; their keys belong to no session."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

from hhd.store.errors import DamagedStoreError, MissingError
from hhd.store.rows import decoded
from hhd_protocol.codec import encode
from hhd_protocol.ids import EpochId, ObjectName, Sha256
from hhd_protocol.objects import Ref

if TYPE_CHECKING:
    from hhd.store.store import Store

MODULE, MODULES = "module", "modules"
"""Tables of rows: where a module is, by its hash; the hashes of all, in the order they came."""


class Modules:
    """The modules of one store."""

    def __init__(self, store: Store) -> None:
        self._store, self._rows = store, store.rows

    def put(self, module: bytes, *, expecting: Sha256 | None = None) -> Sha256:
        """Keep a module and return its hash; again changes nothing. `expecting`: nothing is kept of any other."""
        digest = Sha256(hashlib.sha256(module).digest())
        if expecting is not None and digest != expecting:
            return digest
        with self._store.transaction():
            if self._rows.get(MODULE, b"", digest) is None:
                self._store.insist_on_room(len(module))
                ref = self._store.log_writer(self._store.commons(), self._store.keep, None).append(module)
                self._rows.put(MODULE, b"", digest, encode([ref.name, ref.epoch]))
                self._rows.enlist(MODULES, b"", digest)
        return digest

    def relist(self, kept: Iterable[Sha256], gone: Iterable[Sha256]) -> None:
        """List the modules that are `kept`, and forget where those are that are `gone`: they may be put again."""
        with self._store.transaction():
            for digest in gone:
                self._rows.delete(MODULE, b"", digest)
            self._rows.relist(MODULES, b"", [bytes(one) for one in kept])

    def all(self) -> list[Sha256]:
        """Return the hashes of all modules here."""
        return [Sha256(entry) for entry in self._rows.listing(MODULES, b"")]

    def ref(self, digest: Sha256) -> Ref:
        """Return where a module is; raises MissingError."""
        raw = self._rows.get(MODULE, b"", digest)
        match decoded(raw, "row of a module") if raw is not None else None:
            case [bytes(name), bytes(epoch)]:
                return Ref(name=ObjectName(name), epoch=EpochId(epoch))
            case None if raw is None:
                raise MissingError(f"Module {digest.hex()[:16]} is not in this store.")
        raise DamagedStoreError(f"The row of module {digest.hex()[:16]} is not in the form it was written in.")

    def get(self, digest: Sha256) -> bytes:
        """Return a module; raises MissingError, DamagedStoreError if it is not what its hash says."""
        module = b"".join(self._store.reader(self._store.commons()).log(self.ref(digest)))
        if hashlib.sha256(module).digest() != digest:
            raise DamagedStoreError(f"Module {digest.hex()[:16]} is damaged: it does not have its hash.")
        return module
