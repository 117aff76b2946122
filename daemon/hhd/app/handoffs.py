"""Sessions on their way from device to device: handed on, in a file too, and taken over."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from hhd.app import sessions

if TYPE_CHECKING:
    from hhd.node.answers.made import Received, Released


def release_to_file(name: str, to: str, path: Path, *, force: bool) -> tuple[Released, int]:
    """Release a session to the device `to`, and write the file that it takes it from; what it is, and its length.

    A session that runs is paused first. Where the file cannot be written after all, the same once more writes it.
    """
    from hhd.base.errors import RefusedError, UserError
    from hhd.node import capsule_file

    capsule_file.insist_on_new(path, force=force)
    if not os.access(path.absolute().parent, os.W_OK | os.X_OK):
        raise RefusedError(f"Nothing can be written in {path.absolute().parent}; nothing was changed.")
    _pause(name)
    with sessions.control_here() as verbs:
        made = verbs.release(name, to)
        try:
            return made, capsule_file.write_bytes(path, list(made.parts), force=force)
        except UserError as error:
            raise UserError(
                f"{error} The session is released all the same; the same command writes the file."
            ) from error


def _pause(name: str) -> None:
    link = sessions.daemon_link()
    if link is None:
        return
    from hhd.node.answers.driven import Rested
    from hhd.node.asking import Asking

    with link:
        Asking(link).ask("pause", Rested, name=name)


def receive(path: Path) -> Received:
    """Take the session that the release file `path` hands to this device."""
    from hhd.node import capsule_file

    raw = capsule_file.read_bytes(path)
    with sessions.control_here() as verbs:
        return verbs.receive(raw, path)
