"""Devices for tests of links: keys that are the same in each run."""

from __future__ import annotations

import hashlib
from functools import cache

from hhd.identity.certificates import link_certificate
from hhd.identity.key import Identity
from hhd.transports.tls import Certificate
from hhd_protocol.crypto import device_id, public_key


@cache
def device_named(name: str) -> Identity:
    """The identity of the device with this name."""
    seed = hashlib.sha256(b"a device of the tests: " + name.encode()).digest()
    public = public_key(seed)
    return Identity(seed=seed, public=public, id=device_id(public))


@cache
def certificate_of(name: str) -> Certificate:
    """What that device shows in a handshake."""
    made = link_certificate(device_named(name))
    return Certificate(certificate=made.certificate, key=made.key)
