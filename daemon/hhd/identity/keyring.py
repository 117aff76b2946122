"""The desktop's keyring as a place for the device key: an option, by the PyPI package `keyring` if it is installed."""

from __future__ import annotations

import importlib
from typing import Any

from hhd.base.errors import UserError

SERVICE, USER = "hhd", "device-key"


class KeyringError(UserError):
    """The keyring is asked for and cannot be used."""


class Keyring:
    """Keeps one text in the keyring of this user."""

    name = "keyring"

    def __init__(self) -> None:
        """Raises KeyringError if the package is not installed."""
        try:
            self._keyring: Any = importlib.import_module("keyring")
            self._errors: Any = importlib.import_module("keyring.errors")
        except ImportError as error:
            raise KeyringError(
                "The configuration asks for the keyring, but the package `keyring` is not installed. Install it, or "
                "set identity.keyring to false."
            ) from error

    def get(self) -> str | None:
        """Return what was set, None if nothing was; raises KeyringError if the keyring is locked or absent."""
        try:
            text = self._keyring.get_password(SERVICE, USER)
        except self._errors.KeyringError as error:
            raise KeyringError(f"The keyring cannot be read ({error}); nothing was changed. Unlock it.") from error
        return None if text is None else str(text)

    def set(self, text: str) -> None:
        """Keep `text`; raises KeyringError."""
        try:
            self._keyring.set_password(SERVICE, USER, text)
        except self._errors.KeyringError as error:
            raise KeyringError(f"The keyring cannot be written ({error}); nothing was changed. Unlock it.") from error
