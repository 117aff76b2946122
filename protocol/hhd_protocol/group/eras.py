"""What keys are renewed by: an era is a set of revocations, an epoch one holder's key in it (`group.md`, Keys)."""

from __future__ import annotations

from hashlib import sha256

from hhd_protocol.ids import DeviceId, EpochId, FamilyId


def epoch_of(era: bytes, device: DeviceId, family: FamilyId) -> EpochId:
    """Return the epoch that `device` begins in `era` for a family: two holders of forks name no two keys alike."""
    return EpochId(sha256(b"hhd epoch\0" + era + device + family).digest())
