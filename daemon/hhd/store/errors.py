"""What can go wrong with a store, in sentences for the person whose store it is."""

from __future__ import annotations

from hhd.base.errors import RefusedError, RolledBackError, UserError


class DamagedStoreError(UserError):
    """Something in the store is not as it was written; the sentence names it."""


class NewerStoreError(RefusedError):
    """The store was written by a newer hhd."""


class FullStoreError(RolledBackError):
    """The disk, or the size that the configuration allows, is used up: nothing of the write in hand was kept."""


class BusyError(RefusedError):
    """Another process holds what this one needs."""


class AdvancedError(BusyError):
    """Another process of this device advances the session."""


class MissingError(RefusedError):
    """The store does not have what was asked for."""


class ThinnedError(MissingError):
    """The content was thinned by retention or removed; its record is still here."""
