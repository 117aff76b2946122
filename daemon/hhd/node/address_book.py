"""Where other devices are, as far as this one remembers: addresses that a person fixed, and where each was met last.

It is kept in the store, sealed: where somebody's devices stand is nobody else's business. It is a hint for dialling;
what is damaged of it is begun anew.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from hhd.base.errors import RefusedError, UsageError
from hhd.base.text import short
from hhd.node.dialling import FIXED_MAX, LINKED_MAX, Place
from hhd.store.errors import DamagedStoreError
from hhd.store.store import Store
from hhd_protocol.codec import Value, decode_own, encode
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import DeviceId

PORT_DEFAULT = 17470
"""As `hhd.transports.sockets` has it; a test holds the two together."""

_TABLE = "addresses"
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252})")
_SCOPE = re.compile(r"[A-Za-z0-9._:@-]{0,15}")
"""The interface behind an address that only counts on one: its name, or its number."""
_PORT = re.compile(r"[0-9]{1,5}")
_SHOWN_CHARS = 60


@dataclass(frozen=True, kw_only=True)
class Met:
    """One device: when it was linked last (milliseconds since 1970, 0: never), and where, the last place last."""

    seen_ms: int = 0
    places: tuple[Place, ...] = ()


@dataclass(frozen=True, kw_only=True)
class AddressBook:
    """All of it. `fixed`: each with the device that was found there, None before that."""

    fixed: Mapping[Place, DeviceId | None] = field(default_factory=dict)
    met: Mapping[DeviceId, Met] = field(default_factory=dict)

    def fixing(self, place: Place) -> AddressBook:
        """With one more address; raises RefusedError where there are too many."""
        if place not in self.fixed and len(self.fixed) >= FIXED_MAX:
            raise RefusedError(f"There are {FIXED_MAX} fixed addresses already; nothing was changed.")
        return replace(self, fixed={**self.fixed, place: self.fixed.get(place)})

    def unfixing(self, place: Place) -> AddressBook:
        """Without an address; raises RefusedError if it is none."""
        if place not in self.fixed:
            raise RefusedError(f"{place} is none of the fixed addresses (hhd peer list); nothing was changed.")
        return replace(self, fixed={one: owner for one, owner in self.fixed.items() if one != place})

    def meeting(self, device: DeviceId, place: Place | None, now_ms: int) -> AddressBook:
        """With the news that `device` is, or was until now, linked; at `place`, if it was dialled there."""
        before = self.met.get(device, Met())
        places = before.places
        if place is not None:
            places = (*(one for one in places if one != place), place)[-LINKED_MAX:]
        met = {**self.met, device: Met(seen_ms=max(before.seen_ms, now_ms), places=places)}
        fixed = {one: device if one == place else owner for one, owner in self.fixed.items()}
        return replace(self, met=met, fixed=fixed)

    def of_members(self, devices: Mapping[DeviceId, object]) -> AddressBook:
        """Without what is known of others."""
        return replace(
            self,
            met={device: met for device, met in self.met.items() if device in devices},
            fixed={place: owner if owner in devices else None for place, owner in self.fixed.items()},
        )


def read(store: Store) -> AddressBook:
    """Return what is kept; what is damaged is left out."""
    try:
        raw = store.rows.get(_TABLE, b"", b"")
        return AddressBook() if raw is None else _decoded(decode_own(raw))
    except (DamagedStoreError, FormatError):
        return AddressBook()


def write(store: Store, book: AddressBook) -> None:
    """Keep `book`."""
    fixed: list[Value] = [[place.host, place.port, owner] for place, owner in book.fixed.items()]
    met: list[Value] = [
        [device, one.seen_ms, [[place.host, place.port] for place in one.places]] for device, one in book.met.items()
    ]
    store.rows.put(_TABLE, b"", b"", encode([1, fixed, met]))


def typed(text: str) -> Place:
    """Return the address that a person typed: HOST, HOST:PORT, [IPV6]:PORT or IPV6. Raises UsageError."""
    host, port = _split(text.strip())
    try:
        host = str(ipaddress.ip_address(host))
        sound = _SCOPE.fullmatch(host.partition("%")[2]) is not None
    except ValueError:
        sound = _HOST.fullmatch(host) is not None and re.fullmatch(r"[0-9.]+", host) is None
    if not sound:
        raise UsageError(
            f"'{short(text, _SHOWN_CHARS)}' is no address: it is HOST:PORT, or [IPV6]:PORT; the port may be left out."
        )
    if _PORT.fullmatch(port) is None or not 0 < int(port) < 65536:
        raise UsageError(f"'{short(port, _SHOWN_CHARS)}' is no port: it is a number from 1 to 65535.")
    return Place(host, int(port))


def _split(text: str) -> tuple[str, str]:
    if match := re.fullmatch(r"\[([^\]]*)\](?::(.*))?", text):
        return match[1], match[2] or str(PORT_DEFAULT)
    if text.count(":") == 1:
        host, _, port = text.partition(":")
        return host, port
    return text, str(PORT_DEFAULT)


def _decoded(value: Value) -> AddressBook:
    match value:
        case [1, list(fixed), list(met)]:
            found: dict[Place, DeviceId | None] = {}
            for one in fixed:
                match one:
                    case [str(host), int(port), None | bytes() as owner]:
                        found[Place(host, port)] = None if owner is None else DeviceId(owner)
            seen: dict[DeviceId, Met] = {}
            for one in met:
                match one:
                    case [bytes(device), int(seen_ms), list(places)]:
                        seen[DeviceId(device)] = Met(seen_ms=seen_ms, places=_places(places))
            return AddressBook(fixed=found, met=seen)
    raise FormatError("the address book is not in the form it was written in")


def _places(values: list[Value]) -> tuple[Place, ...]:
    found = []
    for value in values:
        match value:
            case [str(host), int(port)]:
                found.append(Place(host, port))
    return tuple(found)
