"""The files by which the system's service manager knows the daemon: written, compared, taken away.

systemd (a user service and its socket) on Linux, launchd (an agent) on macOS. The templates are `systemd/` and
`launchd/` of the distribution. A file of ours begins with a mark that holds the digest of the rest: so one that a
person edited is told from one that an older hhd wrote, and is neither overwritten nor removed without `--force`.

Which program the unit starts: the stable name of the launcher, never a versioned interpreter. pipx and uv put a link
in ~/.local/bin that every upgrade keeps, though what it leads to may move; a venv keeps its own launcher. With its
links resolved, `sys.executable` would be some `/usr/bin/python3.11`, which knows nothing of the venv and goes with the
next release of the system.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import plistlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hhd.base import files
from hhd.base.errors import RefusedError
from hhd.base.paths import cache_folder, data_folder, runtime_folder
from hhd.control import place

SERVICE, SOCKET, AGENT = "hhd.service", "hhd.socket", "dev.hhd.daemon.plist"

_CARRIED = (
    "HHD_CONFIG_HOME", "HHD_DATA_HOME", "HHD_CACHE_HOME", "HHD_WORKSPACES_HOME",
    "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME",
)  # fmt: skip
"""Where things are: set in this terminal, perhaps not where the service manager starts."""

_UNIT_BYTES_MAX = 64 * 1024
_MARK = "hhd wrote this file; what is below has the digest "


@dataclass(frozen=True, kw_only=True)
class Unit:
    """One file: where it goes, and what it holds."""

    path: Path
    text: str


def launcher() -> tuple[str, ...]:
    """Return the words that start this hhd, by the name that an upgrade keeps.

    Raises RefusedError where hhd runs from a place that is emptied by itself (`uvx`, `pipx run`).
    """
    prefix = Path(sys.prefix)
    _insist_on_lasting(prefix)
    own = Path(sys.executable).parent / "hhd"
    if not os.access(own, os.X_OK):
        return sys.executable, "-P", "-m", "hhd"
    with contextlib.suppress(OSError):
        real = own.resolve(strict=True)
        for folder in (Path.home() / ".local/bin", *map(Path, os.get_exec_path())):
            link = folder / "hhd"
            # Only a link: a copy of the launcher elsewhere may be of another installation tomorrow.
            if folder.is_absolute() and link != own and link.is_symlink() and link.resolve() == real:
                return (str(link),)
    return (str(own),)


def units(*, system: str = sys.platform) -> list[Unit]:
    """Return the files for this installation and this environment; raises RefusedError where none can be made."""
    words = launcher()
    carried = {name: os.path.abspath(os.environ[name]) for name in _CARRIED if os.environ.get(name)}
    for value in (*words, *carried.values(), str(place.socket_path(data_folder()))):
        if any(ord(char) < 32 or ord(char) == 127 or 0xD800 <= ord(char) < 0xE000 for char in value):
            raise RefusedError(f"A service file cannot name {value!r}; nothing was written. Move it, or use hhd up.")
    if system == "darwin":
        return [_unit(agents_folder() / AGENT, _agent(words, carried), begin="<!-- ", end=" -->", after_line=1)]
    folder = systemd_folder()
    return [
        _unit(folder / SOCKET, _filled(_template("systemd", SOCKET), {"SOCKET": _socket_word()})),
        _unit(folder / SERVICE, _service(words, carried)),
    ]


def systemd_folder() -> Path:
    """Where systemd looks for units of this user."""
    chosen = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(chosen) if os.path.isabs(chosen) else Path.home() / ".config") / "systemd/user"


def agents_folder() -> Path:
    """Where launchd looks for agents of this user."""
    return Path.home() / "Library/LaunchAgents"


def installed(*, system: str = sys.platform) -> list[Path]:
    """Return those of our files that are there."""
    names = [agents_folder() / AGENT] if system == "darwin" else [systemd_folder() / one for one in (SOCKET, SERVICE)]
    return [one for one in names if os.path.lexists(one)]


def serve(data: Path, *, system: str = sys.platform) -> bool:
    """Say whether the installed files are of the daemon of the folder `data`: a person may have several."""
    there = installed(system=system)
    if not there:
        return False
    text = read(there[-1]) or ""
    line = (
        f"    <key>HhdData</key>\n    <string>{_in_xml(str(_absolute(data)))}</string>\n"
        if system == "darwin"
        else (f"\nX-Data={_absolute(data)}\n")
    )
    return line in text


def write(wanted: list[Unit], *, force: bool) -> list[Path]:
    """Make the files as wanted; return those that changed.

    Raises RefusedError, with nothing changed, where one was edited by somebody else and `force` is not given.
    """
    found = {unit.path: read(unit.path) for unit in wanted}
    for unit in wanted:
        before = found[unit.path]
        if not force and before not in (None, unit.text) and not is_ours(before or ""):
            raise RefusedError(
                f"{unit.path} is not as hhd wrote it; nothing was changed. Keep what you need of it elsewhere (as by "
                f"systemctl --user edit {unit.path.name}), then hhd up --install --force writes it anew."
            )
    changed = [unit for unit in wanted if found[unit.path] != unit.text]
    for unit in changed:
        unit.path.parent.mkdir(parents=True, exist_ok=True)
        files.replace(unit.path, [unit.text.encode()], mode=0o644)
    return [unit.path for unit in changed]


def remove(*, force: bool, system: str = sys.platform) -> list[Path]:
    """Take our files away and return them; raises RefusedError, with nothing changed, where one was edited."""
    there = installed(system=system)
    for path in there:
        if not force and not is_ours(read(path) or ""):
            raise RefusedError(
                f"{path} is not as hhd wrote it, so it was left; nothing was changed. --force removes it."
            )
    for path in there:
        path.unlink()
    return there


def is_ours(text: str) -> bool:
    """Whether a file of this text is one that some hhd wrote, and nobody edited since."""
    lines = text.splitlines(keepends=True)
    for at, line in enumerate(lines[:2]):
        if _MARK in line:
            said = line.partition(_MARK)[2].split()[:1]
            return said == [_digest("".join([*lines[:at], *lines[at + 1 :]]))]
    return False


def _unit(path: Path, text: str, *, begin: str = "# ", end: str = "", after_line: int = 0) -> Unit:
    lines = text.splitlines(keepends=True)
    lines.insert(after_line, f"{begin}{_MARK}{_digest(text)}{end}\n")
    return Unit(path=path, text="".join(lines))


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()


def read(path: Path) -> str | None:
    """Return what stands in a file, None where there is none; a link is no file of ours."""
    if path.is_symlink():
        return ""
    try:
        with files.open_plain(path) as file:
            return file.read(_UNIT_BYTES_MAX).decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RefusedError(f"{path} cannot be read ({error.strerror}); nothing was changed.") from error


def _template(kind: str, name: str) -> str:
    """Return a template: out of the installed package, or of the checkout that this runs from."""
    package = Path(__file__).parents[1]
    for folder in (package / "services" / kind, package.parents[1] / kind):
        with contextlib.suppress(FileNotFoundError):
            return (folder / name).read_text("utf-8")
    raise RefusedError(f"This installation of hhd came without {kind}/{name}; install it anew.")


def _data() -> Path:
    return _absolute(data_folder())


def _absolute(folder: Path) -> Path:
    return Path(os.path.abspath(folder))


def _filled(template: str, words: Mapping[str, str]) -> str:
    for name, word in words.items():
        assert f"@{name}@" in template
        template = template.replace(f"@{name}@", word)
    return template


def _service(words: tuple[str, ...], carried: Mapping[str, str]) -> str:
    environment = "\n".join(f"Environment={_quoted(f'{name}={value}')}" for name, value in carried.items())
    said = {"HHD": " ".join(map(_quoted, words)), "ENVIRONMENT": environment, "DATA": str(_data())}
    text = _filled(_template("systemd", SERVICE), said)
    return text if carried else text.replace("\n\nRestart=", "\nRestart=")


def _socket_word() -> str:
    path, runtime = place.socket_path(data_folder()), runtime_folder()
    if runtime is not None and path.parent == runtime:
        return f"%t/hhd/{path.name}"  # Wherever the runtime folder of this login is tomorrow.
    if len(os.fsencode(path)) > place.PATH_BYTES_MAX:  # The manager knows no way around; the daemon takes what it gets.
        return f"%t/hhd/{_digest(str(_data()))[:16]}.sock"
    return _escaped(str(_absolute(path)))


def _quoted(word: str) -> str:
    """A word as systemd.syntax(7) reads it back."""
    plain = _escaped(word)
    return plain if plain and all(char.isalnum() or char in "/._-=%+:@," for char in plain) else f'"{_inner(plain)}"'


def _inner(word: str) -> str:
    return word.replace("\\", "\\\\").replace('"', '\\"')


def _in_xml(text: str) -> str:
    from xml.sax.saxutils import escape  # A client of HTTP comes along with it, which no daemon that starts needs.

    return escape(text)


def _escaped(word: str) -> str:
    return word.replace("%", "%%")


def _agent(words: tuple[str, ...], carried: Mapping[str, str]) -> str:
    arguments = "</string>\n        <string>".join(map(_in_xml, words))
    pairs = "".join(f"\n        <key>{_in_xml(name)}</key>\n        <string>{_in_xml(value)}</string>"
                    for name, value in carried.items())  # fmt: skip
    environment = f"{pairs}\n    " if pairs else ""
    said = {"HHD": arguments, "ENVIRONMENT": environment, "DATA": _in_xml(str(_data()))}
    text = _filled(_template("launchd", AGENT), said)
    read = plistlib.loads(text.encode())
    assert read["ProgramArguments"] == [*words, "daemon"] and read["EnvironmentVariables"] == dict(carried)
    return text


def _insist_on_lasting(prefix: Path) -> None:
    home, chosen = Path.home(), os.environ.get("UV_CACHE_DIR")
    emptied = [home / place for place in (".cache", "Library/Caches", ".local/pipx/.cache", ".local/share/pipx/.cache")]
    for folder in (cache_folder(), *([Path(chosen)] if chosen else []), *emptied):
        if prefix.is_relative_to(folder) or prefix.resolve().is_relative_to(folder.resolve()):
            raise RefusedError(
                f"This hhd runs from {prefix}, which is emptied by itself; nothing was written. Install it first: "
                "pipx install hhd, or uv tool install hhd."
            )
