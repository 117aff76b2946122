"""Digests over many sessions, so that two devices that have the same say so in one message each.

Sessions lie in buckets by the first bits of their ids. Digests are of sorted lists, not sums of hashes: nobody can pick
sessions that cancel out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping

from hhd_protocol.ids import SessionId, StatementId
from hhd_protocol.limits import SYNC_BUCKET_BITS_MAX
from hhd_protocol.sync.messages import DIGEST_BYTES

SESSIONS_A_BUCKET = 24
"""A bucket that differs costs its list: some 1.2 KB; each costs its digest: 64 of them for 2,000 sessions are 1 KB."""

Digests = Mapping[SessionId, bytes]
"""By session, `session_digest`."""


def root(digests: Digests) -> bytes:
    """Return the digest over all sessions."""
    return hashlib.sha256(b"hhd sync root\0" + _joined(digests, digests)).digest()


def bits_for(count: int) -> int:
    """Return how many bits number the buckets of so many sessions."""
    return min(SYNC_BUCKET_BITS_MAX, max(0, (count // SESSIONS_A_BUCKET).bit_length()))


def bucket_of(session: bytes, bits: int) -> int:
    """Return the bucket that a session lies in."""
    return int.from_bytes(session[:4], "big") >> (32 - bits)


def in_buckets(digests: Digests, bits: int, wanted: Collection[int] | None = None) -> dict[int, list[SessionId]]:
    """Return the sessions of each bucket (of the `wanted` ones) that has any, in the order of their ids."""
    found: dict[int, list[SessionId]] = {}
    for session in digests:
        number = bucket_of(session, bits)
        if wanted is None or number in wanted:
            found.setdefault(number, []).append(session)
    return {number: sorted(sessions) for number, sessions in found.items()}


def bucket_digests(digests: Digests, bits: int) -> list[bytes]:
    """Return the digest over each bucket."""
    filled = in_buckets(digests, bits)
    return [
        hashlib.sha256(b"hhd sync bucket\0" + _joined(digests, filled.get(number, ()))).digest()[:DIGEST_BYTES]
        for number in range(1 << bits)
    ]


def differing(mine: Digests, bits: int, theirs: bytes) -> list[int]:
    """Return the buckets whose digests differ from `theirs`, which are joined."""
    return [
        number
        for number, digest in enumerate(bucket_digests(mine, bits))
        if theirs[number * DIGEST_BYTES : (number + 1) * DIGEST_BYTES] != digest
    ]


def _joined(digests: Digests, sessions: Collection[SessionId]) -> bytes:
    return b"".join(session + digests[session] for session in sorted(sessions, key=StatementId))
