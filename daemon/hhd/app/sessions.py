"""The verbs on the sessions of this device, asked of the daemon if one runs, else done in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hhd.control.client import Connection
    from hhd.node.answers.made import Exported, Forked
    from hhd.node.control import ControlService
    from hhd.node.listed import Overview
    from hhd.node.remote import Remote


@contextmanager
def control() -> Iterator[ControlService | Remote]:
    """The verbs on the sessions of this device, asked of the daemon if one runs, else done in this process."""
    link = daemon_link()
    if link is None:
        with control_here() as verbs:
            yield verbs
        return
    from hhd.node.remote import Remote

    with link:
        yield Remote(link, control_here)


def daemon_link() -> Connection | None:
    """A connection to the daemon; None where none runs. It imports no asyncio, which takes as long as click."""
    from hhd.base.paths import data_folder
    from hhd.control import address

    path = address.said(data_folder())
    if path is None:
        return None
    from hhd.base.release import RELEASE
    from hhd.control import client

    return client.connect(path, hhd=RELEASE)


def daemon_wanted() -> Connection | None:
    """As `daemon_link`, for what only a daemon does: raises RefusedError where one runs and is not reached."""
    link = daemon_link()
    if link is not None:
        return link
    from hhd.node import starting

    return starting.reached(daemon_link)


@contextmanager
def control_here() -> Iterator[ControlService]:
    """The verbs, in this process."""
    from hhd.node import store
    from hhd.node.control import ControlService

    me = store.identity()
    with store.opened(me) as opened:
        yield ControlService(store=opened, me=me)


def export_to(
    name: str,
    path: Path,
    *,
    head: str | None,
    to: str | None,
    passphrase_fd: int | None,
    embed: bool,
    force: bool,
) -> tuple[Exported, int]:
    """Write a session to the capsule file `path`; what it is, and how many bytes it has."""
    from hhd.base import passing
    from hhd.node import capsule_file, sealed_file

    capsule_file.insist_on_new(path, force=force)
    words = None if passphrase_fd is None else sealed_file.passphrase_from(passphrase_fd)
    with control() as verbs:
        made = verbs.export(name, head=head, to=to, passphrase=words, embed=embed)
        parts = list(passing.counted("making", made.size, made.parts))
        return made, capsule_file.write_parts(path, parts, own=not made.sealed, force=force)


def import_from(path: Path, *, passphrase_fd: int | None, module: Path | None) -> Forked:
    """Make a session of the capsule file `path`."""
    from hhd.node import capsule_file, programs, sealed_file

    raw = capsule_file.read_bytes(path)
    wasm = None if module is None else programs.read_wasm(module)
    words = None if passphrase_fd is None else sealed_file.passphrase_from(passphrase_fd)
    with control() as verbs:
        return verbs.import_capsule(raw, path, passphrase=words, module=wasm)


def none_because() -> str:
    """Why this device keeps no sessions, "" where it may."""
    from hhd.node import no_sessions

    return no_sessions.here()


def listed(query: str, *, with_archived: bool, exact: bool = False) -> Overview:
    """The sessions of this device that `query` means, newest first; `exact`: with where each of them is."""
    link = daemon_link()
    if link is not None:
        from hhd.node import listed

        with link:
            return listed.asked(link, query, with_archived=with_archived, exact=exact)
    from hhd.node import overview

    return overview.overview(query, with_archived=with_archived, exact=exact)
