"""Walls around a command: bubblewrap where it works, and a plain statement where it does not.

Inside: the whole file system read-only, the workspace writable (but git's hooks and settings, `gitwalls`), a fresh /tmp
and /run, a ~/.cache that only commands of sessions share, devices reduced to the harmless ones, process ids of its own
(so nothing outside can be seen or signalled, and everything inside ends with the command), no capabilities, and
neither hhd's folders nor the places where other programs keep keys and sockets.

Whether it works is found by running it, never by reading settings: containers and security modules refuse it in
many ways. Where it is off, tools still run; `Sandbox.status` says that, and why.

What it cannot stop: with the network open a command can reach services on it, this machine's included, and abstract
sockets. Rejected: hiding the whole home folder, where compilers and interpreters of one's own live.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hhd.base.errors import RefusedError
from hhd.base.paths import cache_folder, own_folders
from hhd.base.text import visible
from hhd.effects import gitwalls

_PROBE_SECONDS_MAX = 10.0
"""bubblewrap itself takes 5 ms; what takes seconds hangs."""

SECRET_PLACES = (
    ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".config/gcloud", ".config/gh", ".config/hub",
    ".config/op", ".config/containers", ".password-store", ".local/share/keyrings", ".local/share/kwalletd",
    ".mozilla", ".thunderbird", ".config/google-chrome", ".config/chromium", ".config/BraveSoftware", ".netrc",
    ".git-credentials", ".config/git/credentials", ".pypirc", ".npmrc", ".cargo/credentials",
    ".cargo/credentials.toml", ".claude", ".claude.json", ".codex", ".pi", ".anthropic", ".bash_history",
    ".zsh_history",
)  # fmt: skip
"""Below the home folder: where common programs keep keys, tokens and what was typed."""

_USUAL_PATH = "/usr/local/bin:/usr/bin:/bin"

_KEPT_IN_RUN = ("/run/systemd/resolve", "/run/NetworkManager/resolv.conf", "/run/resolvconf", "/run/current-system")
"""What name resolution and some distributions need of /run; everything else there is sockets."""


@dataclass(frozen=True, kw_only=True)
class SandboxConfig:
    """The part of this device's configuration that concerns the walls (`[policy.sandbox]`)."""

    use: str = "auto"
    """`auto`: where it works; `require`: tools that run commands wait where it does not; `off`."""
    network: bool = True
    git: str = "protected"
    """`protected`: hooks and settings of the workspace's repository are read-only; `writable`."""
    hide: tuple[Path, ...] = ()
    show: tuple[Path, ...] = ()
    """Of `SECRET_PLACES`, what commands may see after all; hhd's own folders are hidden whatever is here."""
    writable: tuple[Path, ...] = ()
    """Folders besides the workspace that commands may write to: caches and the like."""

    @classmethod
    def from_table(cls, table: Mapping[str, object]) -> SandboxConfig:
        """Read the TOML table; raises RefusedError for a key or value that has no meaning."""
        known = {"use", "network", "git", "hide", "show", "writable"}
        if unknown := sorted(set(table) - known):
            raise RefusedError(f"[policy.sandbox] has no setting {unknown[0]!r}; it has {', '.join(sorted(known))}.")
        use, network = table.get("use", "auto"), table.get("network", True)
        if use not in ("auto", "require", "off"):
            raise RefusedError("[policy.sandbox] use must be auto, require or off.")
        if not isinstance(network, bool):
            raise RefusedError("[policy.sandbox] network must be true or false.")
        git = table.get("git", "protected")
        if git not in ("protected", "writable"):
            raise RefusedError("[policy.sandbox] git must be protected or writable.")
        return cls(
            use=str(use),
            network=network,
            git=str(git),
            hide=_places(table, "hide"),
            show=_places(table, "show"),
            writable=_places(table, "writable"),
        )


@dataclass(frozen=True, kw_only=True)
class Sandbox:
    """What stands around a command. `program` is bubblewrap, None where there are no walls; then `reason` says why."""

    program: str | None
    reason: str
    network: bool
    hidden: tuple[Path, ...]
    required: bool = False
    git_protected: bool = True
    writable: tuple[Path, ...] = ()

    def wrap(self, command: Sequence[str], workspace: Path, *, info_fd: int | None = None) -> list[str]:
        """Return the words that run `command` in `workspace`, within the walls if there are any.

        On `info_fd` bubblewrap then writes JSON with `child-pid`: the first process inside, with which all others end.
        """
        if self.program is None:
            return list(command)
        info = [] if info_fd is None else ["--info-fd", str(info_fd)]
        return [self.program, *info, *self._walls(workspace), "--", *command]

    def status(self) -> list[str]:
        """What stands and what does not, in sentences for the person."""
        if self.program is None:
            return [
                f"Commands run without a sandbox: {self.reason}.",
                "They run as you: they can read your files, hhd's own included, and reach the network.",
            ]
        more = "".join(f", {_short(path)}" for path in self.writable)
        git = "; hooks and settings of its git repository are not" if self.git_protected else ""
        hidden = ", ".join(_short(path) for path in self.hidden if os.path.exists(path))
        network = "They reach the network, and by it services of this machine." if self.network else "No network."
        return [
            f"Commands run in a sandbox (bubblewrap). Writable: the workspace{more}{git}. Each gets a fresh /tmp.",
            f"Hidden from them: {hidden or 'nothing that exists'}, /run, other processes.",
            network,
        ]

    def _walls(self, workspace: Path) -> list[str]:
        words = ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
        words += [] if self.network else ["--unshare-net"]
        words += ["--die-with-parent", "--new-session", "--cap-drop", "ALL", "--ro-bind", "/", "/"]
        words += ["--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--tmpfs", "/run"]
        for kept in _KEPT_IN_RUN:
            words += ["--ro-bind-try", kept, kept]
        present = list(dict.fromkeys(path.resolve() for path in self.hidden if os.path.exists(path)))
        around = [path for path in present if workspace.is_relative_to(path)]
        words += _cache()
        words += [word for path in around for word in _hide(path)]
        words += [word for path in (*self.writable, workspace) for word in ("--bind-try", str(path), str(path))]
        words += gitwalls.walls(workspace) if self.git_protected else gitwalls.opened(workspace)
        words += [word for path in present if path not in around for word in _hide(path)]
        return [*words, "--chdir", str(workspace)]


def detect(config: SandboxConfig | None = None, *, search: str | None = None) -> Sandbox:
    """Find by running it whether bubblewrap works here; `search` is the PATH to look in (default: this process's)."""
    config = config or SandboxConfig()
    secrets = [path for path in _secrets() if path not in config.show]
    hidden = tuple(dict.fromkeys(path for path in (*own_folders(), *secrets, *config.hide) if path.is_absolute()))
    required = config.use == "require"
    program = None if config.use == "off" else shutil.which("bwrap", path=search)
    if program is None and search is None and config.use != "off":  # A service may have been started without a PATH.
        program = shutil.which("bwrap", path=_USUAL_PATH)
    reason = "it is switched off in the configuration" if config.use == "off" else "bubblewrap (bwrap) is not installed"
    if sys.platform != "linux" and config.use != "off":
        program, reason = None, "bubblewrap exists on Linux only"
    found = Sandbox(
        program=program,
        reason="",
        network=config.network,
        hidden=hidden,
        required=required,
        git_protected=config.git == "protected",
        writable=config.writable,
    )
    if program is not None:
        failure = _probe(found)
        if failure is None:
            return found
        reason = failure
    return Sandbox(program=None, reason=reason, network=True, hidden=hidden, required=required)


def _places(table: Mapping[str, object], key: str) -> tuple[Path, ...]:
    value = table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(item, str) and item[:1] in ("/", "~") for item in value):
        raise RefusedError(f"[policy.sandbox] {key} must be a list of absolute paths, or of paths that begin with ~/.")
    return tuple(Path(item).expanduser() for item in value)


def _cache() -> list[str]:
    """Words that put a folder of ours in the place of ~/.cache, where builds keep what makes the next one fast.

    The person's own stays out of reach: what is put into a cache is run later, outside.
    """
    own = cache_folder() / "commands"
    shown = Path.home() / ".cache"
    try:
        for folder in (own, shown):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError:
        return []
    return ["--bind", str(own), str(shown.resolve())]


def _short(path: Path) -> str:
    home = Path.home()
    shown = f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)
    return visible(shown, one_line=True)


def _secrets() -> list[Path]:
    home = Path.home()
    return [home / place for place in SECRET_PLACES]


def _hide(path: Path) -> list[str]:
    """Words that put nothing in the place of `path`."""
    return ["--tmpfs", str(path)] if path.is_dir() else ["--ro-bind", "/dev/null", str(path)]


def _probe(sandbox: Sandbox) -> str | None:
    """Why `sandbox` does not work here, None if it does."""
    try:
        with tempfile.TemporaryDirectory(prefix="hhd-probe-") as place:  # Of our own: in /tmp others could spoil it.
            done = subprocess.run(
                sandbox.wrap(["/bin/sh", "-c", "exit 17"], Path(place).resolve()),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                timeout=_PROBE_SECONDS_MAX,
                env={"PATH": os.environ.get("PATH", os.defpath)},
                check=False,
            )
    except subprocess.TimeoutExpired:
        return "bubblewrap did not answer"
    except OSError as error:
        return f"bubblewrap cannot be run ({error.strerror})"
    if done.returncode == 17:
        return None
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["it gave no reason"]
    return f"bubblewrap does not work here ({visible(lines[0][:200], one_line=True)})"
