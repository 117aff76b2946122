"""Names of devices that mean something else: a device that was called so could not be told from it in a sentence."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping

from hhd_protocol.crypto import device_from_text, device_text
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import DeviceId

_THIS = ("here", "this device")
_BEGIN_CHARS_MIN = 8
"""Of an id: what a sentence shows of one at least."""


def misleads(name: str, members: Iterable[DeviceId] = ()) -> bool:
    """Say whether `name` means this device for whoever reads it, is an id, or begins the id of one of `members`."""
    plain = " ".join(unicodedata.normalize("NFKC", name).casefold().split())
    if plain in _THIS:
        return True
    letters = plain.replace("-", "").replace(" ", "")
    if len(letters) < _BEGIN_CHARS_MIN or not (letters.isascii() and letters.isalnum()):
        return False
    try:
        device_from_text(letters)
        return True
    except FormatError:
        return any(device_text(one).replace("-", "").startswith(letters) for one in members)


def sound(names: Mapping[bytes, str]) -> dict[bytes, str]:
    """Those of `names` that mislead nobody: a device of another one is shown with its id."""
    return {half: name for half, name in names.items() if not misleads(name)}
