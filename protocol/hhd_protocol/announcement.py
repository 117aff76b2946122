"""What a device says on its network, so that its own group and nobody else recognises it (`spec/discovery.md`).

An announcement has a random name and, for each other member, a tag that only that member and the announcer can compute.
Who is no member learns that some device runs hhd, at which address, and about how many others it knows.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from hhd_protocol.crypto import agreed_key
from hhd_protocol.errors import FormatError, NewerVersionError
from hhd_protocol.ids import DeviceId
from hhd_protocol.limits import ANNOUNCEMENT_TAGS_MAX

VERSION = 1
SERVICE = "_hhd._tcp.local."
NONCE_BYTES = 8
TAG_BYTES = 6
PADDED_TO = 4
"""The number of tags is a multiple of this, so that a group's size shows only roughly."""

_LABEL = re.compile(r"[0-9a-f]{16}")


class Announcement(NamedTuple):
    """One device as it shows itself: a random name, tags for those who know it, and whether a code is open there."""

    nonce: bytes
    tags: tuple[bytes, ...]
    pairing: bool = False

    @property
    def label(self) -> str:
        """The name of the service instance."""
        return self.nonce.hex()

    def properties(self) -> dict[bytes, bytes]:
        """The strings of the TXT record."""
        strings = {b"v": b"%d" % VERSION, b"t": b"".join(self.tags)}
        return {**strings, b"p": b"1"} if self.pairing else strings


def decoded(label: str, properties: Mapping[bytes, bytes | None]) -> Announcement:
    """Return what an instance of the service says; raises FormatError. Strings not known here are no matter."""
    if _LABEL.fullmatch(label) is None:
        raise FormatError("the name of an announcement is not one")
    version = properties.get(b"v") or b""
    if not version.isdigit() or len(version) > 4 or version.startswith(b"0"):
        raise FormatError("an announcement has no version")
    if int(version) > VERSION:
        raise NewerVersionError("an announcement is of a newer hhd")
    tags = properties.get(b"t") or b""
    if len(tags) % TAG_BYTES or len(tags) > ANNOUNCEMENT_TAGS_MAX * TAG_BYTES:
        raise FormatError("the tags of an announcement are none")
    return Announcement(
        nonce=bytes.fromhex(label),
        tags=tuple(tags[at : at + TAG_BYTES] for at in range(0, len(tags), TAG_BYTES)),
        pairing=properties.get(b"p") == b"1",
    )


def pair_key(seed: bytes, public: bytes) -> bytes:
    """Return the key under which two devices recognise each other; raises SealError if `public` is none."""
    return agreed_key(seed, public, "announcement")


def tag(key: bytes, announcer: DeviceId, nonce: bytes) -> bytes:
    """Return by which the other device of `key` recognises `announcer` behind the name `nonce`."""
    return hashlib.blake2b(announcer + nonce, digest_size=TAG_BYTES, key=key, person=b"hhd1.tag").digest()


def announcement(
    me: DeviceId, keys: Iterable[bytes], nonce: bytes, filler: bytes, *, pairing: bool = False
) -> Announcement:
    """Return what `me` announces to the devices with which it shares `keys`, the first ones if they are too many.

    `filler`: `TAG_BYTES * PADDED_TO` random bytes, which stand where no tag does. Tags are sorted: their order says
    nothing.
    """
    tags = [tag(key, me, nonce) for key in keys][:ANNOUNCEMENT_TAGS_MAX]
    spare = [filler[at : at + TAG_BYTES] for at in range(0, len(filler), TAG_BYTES)]
    missing = PADDED_TO if not tags else -len(tags) % PADDED_TO
    return Announcement(nonce=nonce, tags=tuple(sorted(tags + spare[:missing])), pairing=pairing)


def announcer(said: Announcement, keys: Mapping[DeviceId, bytes]) -> DeviceId | None:
    """Return which of the devices with which this one shares `keys` announced this; None if none did."""
    tags = frozenset(said.tags)
    return next((device for device, key in keys.items() if tag(key, device, said.nonce) in tags), None)
