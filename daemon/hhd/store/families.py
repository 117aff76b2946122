"""Keys of families: one fixed page-id key, a sealing key for each epoch (`sealing.md`, Keys of a family)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from hhd.store.errors import DamagedStoreError, MissingError
from hhd.store.rows import Rows, decoded
from hhd_protocol.codec import Value, encode
from hhd_protocol.crypto import KEY_BYTES, WrappedKey, unwrap, wrap
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import DeviceId, EpochId, FamilyId

FAMILY = "family"
_TABLE = FAMILY


@dataclass(frozen=True, kw_only=True)
class Family:
    """The keys of one family that this device has; `epoch` is the one that new objects are sealed under."""

    id: FamilyId
    page_key: bytes = field(repr=False)
    epochs: Mapping[EpochId, bytes] = field(repr=False)
    epoch: EpochId

    def key(self, epoch: EpochId) -> bytes:
        """Return the sealing key of `epoch`; raises MissingError if this device was not given it."""
        if epoch not in self.epochs:
            raise MissingError(f"The key of epoch {epoch.hex()[:16]} has not been given to this device.")
        return self.epochs[epoch]

    def wrapped(self, to_public: bytes, by_seed: bytes, random: Callable[[int], bytes]) -> list[WrappedKey]:
        """Return every key of the family sealed to the device of `to_public`."""
        keys = [(None, self.page_key), *self.epochs.items()]
        return [
            wrap(
                key,
                family=self.id,
                epoch=epoch,
                to_public=to_public,
                by_seed=by_seed,
                ephemeral_secret=random(KEY_BYTES),
            )
            for epoch, key in keys
        ]


class Families:
    """The families of one store, kept in its rows."""

    def __init__(
        self,
        rows: Rows,
        random: Callable[[int], bytes],
        *,
        device: DeviceId,
        era: Callable[[], bytes | None],
    ) -> None:
        """`device`: this one. `era`: what all revocations that count here come to, None before the first."""
        self._rows, self._random, self._device, self._era = rows, random, device, era
        self._known: dict[FamilyId, Family] = {}

    def create(self, epoch: EpochId, family: FamilyId | None = None) -> Family:
        """Make a family whose first epoch is named `epoch`; within a transaction."""
        made = Family(
            id=family or FamilyId(self._random(16)),
            page_key=self._random(KEY_BYTES),
            epochs={epoch: self._random(KEY_BYTES)},
            epoch=epoch,
        )
        return self._keep(made)

    def get(self, family: FamilyId) -> Family:
        """Return a family; raises MissingError if this device has no key of it."""
        if family not in self._known:
            raw = self._rows.get_either(_TABLE, b"", family)
            if raw is None:
                raise MissingError(f"This device has no keys of family {family.hex()}.")
            self._known[family] = _decoded(family, raw)
        return self._known[family]

    def holds(self, family: FamilyId) -> bool:
        """Whether this device has the keys of a family, and can read them."""
        try:
            self.get(family)
        except (MissingError, DamagedStoreError):
            return False
        return True

    def current(self, family: FamilyId) -> Family:
        """Return a family to seal under: after a revocation a new epoch begins here (`group.md`, Keys).

        Raises MissingError.
        """
        found = self.get(family)
        era = self._era()
        if era is None:
            return found
        from hhd_protocol.group.eras import epoch_of  # Who never revoked a device needs none of it.

        epoch = epoch_of(era, self._device, family)
        return found if found.epoch == epoch else self.begin_epoch(family, epoch)

    def begin_epoch(self, family: FamilyId, epoch: EpochId) -> Family:
        """Seal under `epoch` from now on, whose key is made unless it is here."""
        with self._rows.transaction():
            self._known.pop(family, None)  # Another process may have made that very key.
            old = self.get(family)
            key = old.epochs.get(epoch) or self._random(KEY_BYTES)
            return self._keep(replace(old, epochs={**old.epochs, epoch: key}, epoch=epoch))

    def accept(self, keys: list[WrappedKey], *, by_public: bytes, seed: bytes, current: EpochId) -> Family:
        """Keep keys that a full member wrapped for this device; within a transaction.

        Raises SealError if one is not what it says, MissingError if no page-id key or not the `current` epoch's is
        among them and what is here.
        """
        family = keys[0].family
        raw = self._rows.get_either(_TABLE, b"", family)
        known = _decoded(family, raw) if raw is not None else None
        epochs = dict(known.epochs) if known else {}
        page_key = known.page_key if known else None
        for key in keys:
            if key.family != family:
                raise FormatError("wrapped keys of two families came as one")
            opened = unwrap(key, by_public=by_public, seed=seed)
            if key.epoch is None:
                page_key = page_key or opened
            else:
                epochs.setdefault(key.epoch, opened)
        if page_key is None or current not in epochs:
            raise MissingError(f"Not every key of family {family.hex()} has come yet.")
        return self._keep(Family(id=family, page_key=page_key, epochs=epochs, epoch=current))

    def learn(
        self, family: FamilyId, page_key: bytes, epochs: Mapping[EpochId, bytes], epoch: EpochId, *, by_full: bool
    ) -> Family:
        """Keep keys that were left for this device; none that is here is replaced. Within a transaction.

        `by_full`: by who is a full member now. Who was one, and was put out, does not choose what is sealed under from
        then on: the key that this device begins its own epoch with is not taken from it. Raises MissingError.
        """
        if not by_full and (era := self._era()) is not None:
            from hhd_protocol.group.eras import epoch_of

            own = epoch_of(era, self._device, family)
            epochs = {one: key for one, key in epochs.items() if one != own}
        if self.holds(family):
            known = self.get(family)
            if epochs.keys() <= known.epochs.keys():
                return known
            newer = by_full and epoch in epochs and epoch not in known.epochs
            now = epoch if newer else known.epoch
            return self._keep(replace(known, epochs={**epochs, **known.epochs}, epoch=now))
        if epoch not in epochs:
            raise MissingError(f"Not every key of family {family.hex()} has come yet.")
        return self._keep(Family(id=family, page_key=page_key, epochs=dict(epochs), epoch=epoch))

    def copy(self, family: FamilyId) -> None:
        """Write both copies of a family's keys anew: one of them may be lost."""
        self._keep(self.get(family))

    def forget(self, family: FamilyId) -> None:
        """Remove the keys of a family: what is sealed under them is gone; within a transaction."""
        self._rows.delete_both(_TABLE, b"", family)
        self._known.pop(family, None)

    def reread(self) -> None:
        """Drop what was read before: a transaction that changed it was rolled back, or another process wrote."""
        self._known.clear()

    def _keep(self, family: Family) -> Family:
        epochs: list[Value] = [[epoch, key] for epoch, key in family.epochs.items()]
        self._rows.put_twice(_TABLE, b"", family.id, encode([1, family.page_key, family.epoch, epochs, family.id]))
        self._known.pop(family.id, None)
        return family


def _decoded(family: FamilyId, raw: bytes) -> Family:
    match decoded(raw, "row of a family's keys"):
        case [1, bytes(page_key), bytes(epoch), list(pairs), bytes()] if len(page_key) == KEY_BYTES:
            keys: dict[EpochId, bytes] = {}
            for pair in pairs:
                match pair:
                    case [bytes(named), bytes(key)] if len(key) == KEY_BYTES:
                        keys[EpochId(named)] = key
            if len(keys) == len(pairs) and epoch in keys:
                return Family(id=family, page_key=page_key, epochs=keys, epoch=EpochId(epoch))
    raise DamagedStoreError(f"The keys of family {family.hex()} are not in the form they were written in.")
