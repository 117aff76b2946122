"""Identifiers with types of their own, so that no two kinds are ever confused."""

from __future__ import annotations

from typing import NewType

Sha256 = NewType("Sha256", bytes)
"""A SHA-256 digest: 32 bytes."""

LineId = NewType("LineId", bytes)
"""Which line of steps a capsule belongs to: 16 random bytes, drawn at each step."""
