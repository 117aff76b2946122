"""A device as the verbs answer it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Device:
    """A device: its id as a person reads it, its name ("" if it has none), and whether it is this one."""

    id: str
    name: str
    here: bool
