"""Identifiers with types of their own, so that no two kinds are ever confused."""

from __future__ import annotations

from typing import NewType

Sha256 = NewType("Sha256", bytes)
"""A SHA-256 digest: 32 bytes."""

LineId = NewType("LineId", bytes)
"""Which line of steps a capsule belongs to: 16 random bytes, drawn at each step."""

DeviceId = NewType("DeviceId", bytes)
"""A device: the hash of its public key with the key's type, 32 bytes."""

FamilyId = NewType("FamilyId", bytes)
"""A session and its forks, which share keys: 16 random bytes."""

EpochId = NewType("EpochId", bytes)
"""An epoch of sealing keys: the 32-byte hash of the record that began it."""

ObjectName = NewType("ObjectName", bytes)
"""A sealed object, for who cannot read it: the SHA-256 of its sealed bytes."""

PageId = NewType("PageId", bytes)
"""Content, for who can read it: keyed BLAKE2b, 32 bytes."""

SessionId = NewType("SessionId", bytes)
"""A session, its own and never a native id: the 32-byte hash of the record that created it."""

CheckpointId = NewType("CheckpointId", bytes)
"""A checkpoint: the SHA-256 of its record."""
