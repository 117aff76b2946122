"""What this device has begun to write into folders and not ended: a record of each, so that a start can finish it.

A record lies in hhd's own folder, never in the folder it speaks of, which may be anybody's. There is at most one for a
folder, and a lock beside it that the kernel frees with its process: whoever gets the lock and finds a record, finds
what a dead process left. Content and names are sealed by the `box` of the device; what is staged beside a folder is a
part of the person's own workspace, and plain as that is.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hhd.base.box import Box
from hhd.base.errors import RefusedError
from hhd.base.files import replace, sync_folder
from hhd.base.paths import data_folder, private_folder
from hhd.workspace.switch import Switch
from hhd_protocol.codec import Value, decode, encode
from hhd_protocol.errors import FormatError

VERSION = 1
RECORD, LOCK = ".sealed", ".held"
PLAIN, PLAIN_LOCK = ".cbor", ".lock"
"""What an earlier hhd called them, after an unkeyed hash of the folder."""

RECORD_BYTES_MAX = 1024 * 1024 * 1024
"""A million changes take some 200 MB."""


@dataclass(frozen=True, kw_only=True)
class Pending:
    """Something begun: `stage` is the folder where it is prepared.

    `switch` None: nothing visible has changed yet, so the stage and the lock go. Else it is carried on.
    `lock`: git's index.lock that we hold, recognised by its content, `token`.
    """

    folder: Path
    stage: Path
    lock: Path | None = None
    token: bytes = b""
    switch: Switch | None = None


class Place:
    """The records of one folder, locked: nobody else of this user writes into that folder through hhd."""

    def __init__(self, name: str, box: Box) -> None:
        self.file = pending_folder() / f"{name}{RECORD}"
        self._box = box

    def load(self) -> Pending | None:
        """What a dead process left; None if nothing. Raises RefusedError for a record that cannot be read."""
        try:
            sealed = self.file.read_bytes()
        except FileNotFoundError:
            return None
        if (raw := self._box.opened(self.file.name, sealed)) is None:
            raise unreadable(self.file, "does not open with this device's key")
        return parsed(self.file, raw)

    def save(self, pending: Pending) -> None:
        """Make `pending` what is left if this process dies."""
        replace(self.file, [self._box.sealed(self.file.name, encode(_value(pending)))])

    def forget_switch(self, pending: Pending, *, undone: bool = False) -> None:
        """The change is made, or `undone`, and only the stage and the lock are left to go.

        Said before the stage goes, bit by bit: a crash in the middle must not carry on with what is left of it. Where
        it cannot be said (the disk is full), a change that was made may be gone through again, an undone one not.
        """
        try:
            self.save(dataclasses.replace(pending, switch=None))
        except OSError:
            if undone:
                self.clear()

    def clear(self) -> None:
        """Nothing is left to do."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.file)
            sync_folder(self.file.parent)


def pending_folder() -> Path:
    """Where the records are."""
    return private_folder(private_folder(data_folder()) / "pending")


def name_of(folder: Path, box: Box) -> str:
    """What the record of `folder` is called, without its ending: nobody without the key can tell whose it is."""
    return box.name(str(folder.parent.resolve() / folder.name))


def plain_name_of(folder: Path) -> str:
    """What an earlier hhd called it: whoever guessed the folder could see that the guess was right."""
    return hashlib.sha256(os.fsencode(folder.parent.resolve() / folder.name)).hexdigest()[:32]


@contextlib.contextmanager
def held(folder: Path, box: Box) -> Iterator[Place]:
    """Hold the place of `folder` while the block lasts; raises RefusedError if another process does, or it cannot."""
    name = name_of(folder, box)
    with contextlib.ExitStack() as stack:
        try:
            free = stack.enter_context(locked(name, LOCK))
            earlier = (pending_folder() / f"{plain_name_of(folder)}{PLAIN_LOCK}").exists()
        except OSError as error:
            words = f"hhd's own folder cannot be written ({error.strerror}); nothing was changed in {folder}."
            raise RefusedError(words) from error
        if not free:
            raise RefusedError(f"Another hhd is writing into {folder}; nothing was changed. Try again later.")
        if earlier:  # A start seals what a dead one left, so it lives, or its record cannot be read.
            raise RefusedError(f"An earlier hhd has begun to write into {folder}; nothing was changed.")
        yield Place(name, box)


@contextlib.contextmanager
def held_ahead(folder: Path, box: Box) -> Iterator[Place | None]:
    """Hold the place of what is prepared ahead for `folder`; None if another preparation does. Raises OSError.

    It is another one than `held` holds: who writes into the folder now does not wait for what may come.
    """
    name = box.name(f"{folder.parent.resolve() / folder.name}\0ahead")
    with locked(name, LOCK) as free:
        yield Place(name, box) if free else None


@contextlib.contextmanager
def left_behind(box: Box) -> Iterator[list[Place]]:
    """Every place with a record whose process is dead, held while the block lasts."""
    with contextlib.ExitStack() as stack:
        found = []
        for file in sorted(pending_folder().glob(f"*{RECORD}")):
            if stack.enter_context(locked(file.stem, LOCK)):
                found.append(Place(file.stem, box))
        yield found


@contextlib.contextmanager
def locked(name: str, ending: str) -> Iterator[bool]:
    """Hold that lock while the block lasts; False if another process does."""
    fd = os.open(pending_folder() / f"{name}{ending}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(fd)


def parsed(file: Path, raw: bytes) -> Pending:
    """The record that `file` was given as `raw`; raises RefusedError."""
    try:
        return _parse(decode(raw, bytes_max=RECORD_BYTES_MAX))
    except FormatError as error:
        raise unreadable(file, f"cannot be read ({error})") from None


def unreadable(file: Path, why: str) -> RefusedError:
    """The sentence on a record that does not say any more what was begun."""
    words = "put back the key or the file as it was, or move the file away to give up the change it speaks of"
    return RefusedError(f"{file} {why}: it is how an interrupted change of a folder is ended; {words}.")


def _value(pending: Pending) -> Value:
    lock = None if pending.lock is None else os.fsencode(pending.lock)
    switch = None if pending.switch is None else pending.switch.value()
    return [VERSION, os.fsencode(pending.folder), os.fsencode(pending.stage), lock, pending.token, switch]


def _parse(value: Value) -> Pending:
    match value:
        case [1, bytes(folder), bytes(stage), (bytes() | None) as lock, bytes(token), switch]:
            return Pending(
                folder=Path(os.fsdecode(folder)),
                stage=Path(os.fsdecode(stage)),
                lock=None if lock is None else Path(os.fsdecode(lock)),
                token=token,
                switch=None if switch is None else Switch.parse(switch),
            )
    raise FormatError("it is not a record of this version")
