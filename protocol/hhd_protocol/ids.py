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

StatementId = NewType("StatementId", bytes)
"""What a device signed in a session: the SHA-256 of the signed bytes (`lineage.md`)."""

SessionId = NewType("SessionId", StatementId)
"""A session, its own and never a native id: the id of the record that created it."""

CheckpointId = NewType("CheckpointId", StatementId)
"""A checkpoint: the id of its record."""

EffectId = NewType("EffectId", bytes)
"""An effect: the 32-byte hash of its session and its position in the journal, never of a device or a token."""

Incarnation = NewType("Incarnation", bytes)
"""One opening of a store: 16 random bytes. What was acknowledged holds for one of them."""

TransferId = NewType("TransferId", bytes)
"""One handoff of a session to another device: 16 random bytes."""

GroupRecordId = NewType("GroupRecordId", bytes)
"""What a device signed about its group: the SHA-256 of the signed bytes (`group.md`)."""
