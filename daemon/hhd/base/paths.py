"""Where hhd keeps things on this device (XDG folders on Linux, ~/Library on macOS)."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

from hhd.base.errors import RefusedError


def config_folder() -> Path:
    """The folder of `config.toml`; `HHD_CONFIG_HOME` overrides it."""
    return _folder("HHD_CONFIG_HOME", "XDG_CONFIG_HOME", ".config", "Preferences")


def data_folder() -> Path:
    """The folder of keys and store; `HHD_DATA_HOME` overrides it."""
    return _folder("HHD_DATA_HOME", "XDG_DATA_HOME", ".local/share", "Application Support")


def cache_folder() -> Path:
    """The folder of what can be made again; `HHD_CACHE_HOME` overrides it."""
    return _folder("HHD_CACHE_HOME", "XDG_CACHE_HOME", ".cache", "Caches")


def workspaces_folder() -> Path:
    """Where working folders of ours are made, for sessions whose own folder must not be touched, or is not here.

    Not below any of the others: tools of a session work in it. `HHD_WORKSPACES_HOME` overrides `~/hhd`.
    """
    chosen = os.environ.get("HHD_WORKSPACES_HOME")
    return Path(chosen) if chosen else Path.home() / "hhd"


def runtime_folder() -> Path | None:
    """Where sockets of this login are; None where the system has no such place (macOS, a login without systemd)."""
    chosen = os.environ.get("XDG_RUNTIME_DIR")
    return Path(chosen) / "hhd" if chosen and os.path.isabs(chosen) else None


def own_folders() -> tuple[Path, ...]:
    """All that are ours, and where the daemon's socket is, links resolved: what no tool of a session comes near."""
    folders = (data_folder(), config_folder(), cache_folder(), runtime_folder())
    return tuple(folder.resolve() for folder in folders if folder is not None)


def private_folder(folder: Path) -> Path:
    """Make `folder` exist as ours alone (0700) and return it.

    Raises RefusedError when it belongs to another user, is a link, or others may write to it.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise RefusedError(f"{folder} is not a folder of this user; nothing was read from it or written to it.")
    if found.st_mode & 0o077:
        os.chmod(folder, 0o700)
    return folder


def _folder(own: str, xdg: str, home_part: str, mac_part: str) -> Path:
    if chosen := os.environ.get(own):
        return Path(chosen)
    if sys.platform == "darwin":
        return Path.home() / "Library" / mac_part / "hhd"
    base = os.environ.get(xdg)
    return (Path(base) if base and os.path.isabs(base) else Path.home() / home_part) / "hhd"
