"""Looks at what hhd keeps here: configuration, key, store, log, room on the disk."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from pathlib import Path

from hhd.base import config
from hhd.base.errors import UserError
from hhd.base.log import FILE
from hhd.base.paths import cache_folder, config_folder, data_folder
from hhd.identity.keyring import KeyringError
from hhd.node import logs, store
from hhd.node.doctor.finding import Finding, broken, ok, warn
from hhd.node.tending import DISK_FREE_BYTES_LOW
from hhd.node.this_device import identity_folder, known_identity, store_folder
from hhd.store.layout import FILE as STORE_FILE
from hhd.store.note import noted_device

WAL_BYTES_LARGE = 256 * 1024 * 1024
"""Some process has kept the log from being folded in for long: each look into the store reads it."""
INODES_LOW = 1000
CLOCK_BACK_SECONDS = 120
"""A store written so far in the future means that the clock was put back."""

_MEND = "hhd check says what is damaged, hhd check --repair mends it"


def configuration() -> Finding:
    """Whether `config.toml` can be read."""
    file = config.path()
    try:
        config.load()
    except UserError as error:
        return broken(str(error), f"Correct {file}; hhd config --example prints one with every setting.")
    if not file.exists():
        return ok("There is none, so all is as by default.")
    mode = stat.S_IMODE(file.stat().st_mode)
    if mode & 0o022:
        return warn(f"Others on this machine can change {file}.", f"Run: chmod go-w {file}")
    return ok(f"{file} is read.")


def key() -> Finding:
    """Whether this device's key is there, and is the one that the store belongs to."""
    try:
        me = known_identity()
    except KeyringError as error:
        return broken(str(error), "Unlock the keyring, or install it: pip install 'hhd[keyring]'.")
    except UserError as error:
        return broken(str(error), f"Restore {identity_folder()} from a backup, or do what is said above.")
    except OSError as error:
        return broken(f"The key cannot be read ({error.strerror}).", f"Let this user read {identity_folder()}.")
    if me is None:
        return ok("There is none yet; it is made with the first session.")
    folder = identity_folder()
    place = "in a file that only you read" if (folder / "device.key").exists() else "in the keyring"
    return ok(f"The key of this device ({me.text[:14]}…) is {place}.")


def health_of_store() -> Finding:
    """Whether the store opens; what is in it is not read (`hhd check` does)."""
    folder = store_folder()
    try:
        if noted_device(folder) is None:
            return ok("There is none yet.")
        with store.opened() as one:
            count = len(one.sessions())
        log = folder / f"{STORE_FILE}-wal"
        size = log.stat().st_size if log.exists() else 0
    except UserError as error:
        return broken(str(error), f"{_MEND}.")
    except OSError as error:
        return broken(f"The store cannot be opened ({error.strerror}).", f"Let this user read and write {folder}.")
    if size > WAL_BYTES_LARGE:
        return warn(f"Its log has grown to {size >> 20} MiB.", "Run: hhd restart")
    return ok(f"It opens, with {count:,} {'session' if count == 1 else 'sessions'}; hhd check reads all of it.")


def disk() -> Finding:
    """Whether there is room, and whether hhd can write where it keeps things."""
    for folder in (data_folder(), cache_folder(), config_folder()):
        there = _there(folder)
        problem = _cannot_write(there) if folder != config_folder() else ""
        if problem:
            return broken(f"{there} cannot be written ({problem}).", _how_to_write(there, problem))
    folder = _there(data_folder())
    found = os.statvfs(folder)
    free = found.f_bavail * found.f_frsize
    with contextlib.suppress(UserError):
        least = config.load().store.free_bytes_min
        if free < least:
            return broken(
                f"{free >> 20} MiB are left on the disk of {folder}, and {least >> 20} are to stay: sessions wait.",
                "Free some, or run hhd gc; store.free_bytes_min says how much is to stay.",
            )
    if found.f_files and found.f_favail < INODES_LOW:
        return warn(f"Only {found.f_favail:,} files more fit the disk of {folder}.", "Remove some, as of caches.")
    if free < DISK_FREE_BYTES_LOW:
        return warn(f"{free >> 20} MiB are left on the disk of {folder}.", "Free some, or run hhd gc.")
    return ok(f"{free >> 30:,} GiB are left for {folder}.")


def log_of_daemon() -> Finding:
    """Whether the daemon's log can be written, and only this user reads it."""
    path = logs.log_folder() / FILE
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return ok("There is none yet.")
    except OSError as error:
        return broken(f"{path} cannot be looked at ({error.strerror}).", f"Move {path.parent} away.")
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
        return broken(f"{path} is no file of this user, so nothing is noted.", f"Move {path} away.")
    if found.st_mode & 0o077:
        return warn(f"Others on this machine can read {path}.", f"Run: chmod 600 {path}")
    return ok("Only you read it; hhd logs shows it.")


def clock() -> Finding:
    """Whether the clock can be right: it is past the newest thing that was written here, and it moves."""
    begun = time.monotonic()
    now = time.time()
    if now < _RELEASED:
        return warn("The clock stands before the day this hhd was made.", "Set it: sudo timedatectl set-ntp true")
    newest = 0.0
    for name in (STORE_FILE, f"{STORE_FILE}-wal"):
        with contextlib.suppress(OSError):
            newest = max(newest, (store_folder() / name).stat().st_mtime)
    if newest > now + CLOCK_BACK_SECONDS:
        return warn(
            f"The store was written {newest - now:.0f} seconds in the future: the clock was put back since.",
            "Set the clock, as by: sudo timedatectl set-ntp true",
        )
    if time.monotonic() < begun:
        return broken("The monotonic clock runs backwards.", "Restart the machine.")
    return ok(f"{time.strftime('%Y-%m-%d %H:%M:%S %Z', time.localtime(now))}; order never rests on it.")


_RELEASED = 1_795_000_000
"""2026-11-18: no clock that is right says less."""


def _there(folder: Path) -> Path:
    """The folder, or the nearest one above it that is there: in that it would be made."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder


def _cannot_write(folder: Path) -> str:
    """Why nothing can be written in `folder`, found by writing; empty where it can."""
    name = folder / f".hhd-doctor-{os.urandom(6).hex()}.tmp"
    try:
        fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, bytes(4096))
            os.fsync(fd)
        finally:
            os.close(fd)
            os.unlink(name)
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _how_to_write(folder: Path, problem: str) -> str:
    if problem == os.strerror(errno.ENOSPC):
        return f"Free some room on the disk of {folder}."
    if problem == os.strerror(errno.EROFS):
        return f"The file system of {folder} is read-only: mount it writable, or name another place by HHD_DATA_HOME."
    return f"Let this user write there: ls -ld {folder}"
