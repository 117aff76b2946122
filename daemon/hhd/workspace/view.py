"""A repository looked at through settings of ours: git reads its objects and its index, and nothing else of it.

The settings, hooks, attributes and references of a repository can make git run programs. Overriding each of them on
the command line is a list that is never complete, and a process in the folder may change a setting between our look
and git's. So git is given a folder of our own as the repository: with the commit that HEAD stands on, and the few
settings that say how the working tree is to be read (`core.fileMode`, say), each held to its kind. The objects and the
index are those of the repository, opened to read only. Nothing is written into it, not even a lock.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from hhd.base.errors import RefusedError
from hhd.base.files import open_plain
from hhd.base.text import visible
from hhd.workspace.git import Git, GitFailed, said
from hhd.workspace.place import Place

_BOOLEANS = {
    "core.filemode": True,
    "core.symlinks": True,
    "core.ignorecase": False,
    "core.precomposeunicode": False,
    "core.sparsecheckout": False,
    "core.sparsecheckoutcone": False,
    "core.trustctime": True,
}
"""Settings that say how the working tree is to be read, with git's defaults."""

_SETTINGS_SECONDS_MAX = 30

_COPIED_BYTES_MAX = 16 * 1024 * 1024
"""Of `info/exclude`, `info/sparse-checkout` and `shallow`: lists that persons write."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the repository's and the person's settings say, as text by lower-case name; the last of equals counts."""

    values: Mapping[bytes, bytes]
    remotes: Mapping[bytes, bytes] = field(default_factory=dict)

    def flag(self, name: str) -> bool:
        """A setting that is true or false."""
        raw = self.values.get(name.encode())
        if raw is None:
            return _BOOLEANS[name]
        return raw.strip().lower() not in (b"false", b"no", b"off", b"0", b"")


def settings(place: Place) -> Settings:
    """Read the settings of a repository together with the person's own; `git config` runs nothing."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "XDG_CONFIG_HOME") if name in os.environ}
    try:
        done = subprocess.run(
            ["git", f"--git-dir={place.git_dir}", "config", "--null", "--list"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd=place.top,
            env={**kept, "LC_ALL": "C"},
            check=False,
            timeout=_SETTINGS_SECONDS_MAX,
        )
    except subprocess.TimeoutExpired as error:
        raise RefusedError(
            f"git does not come to an end of the settings of {visible(str(place.top), one_line=True)}: "
            "they may include something that is no file."
        ) from error
    except FileNotFoundError as error:
        raise RefusedError("git is not installed, so a repository cannot be captured: install it.") from error
    if done.returncode:
        raise RefusedError(
            f"git cannot read the settings of {visible(str(place.top), one_line=True)}: {said(done.stderr)}"
        )
    values, remotes = {}, {}
    for record in done.stdout.split(b"\0")[:-1]:
        name, has_value, value = record.partition(b"\n")
        values[name] = value if has_value else b"true"
        if name.startswith(b"remote.") and name.endswith(b".url"):
            remotes[name[len(b"remote.") : -len(b".url")]] = value
    return Settings(values=values, remotes=remotes)


class View:
    """A repository through settings of ours, while the block lasts. `head`: the commit HEAD stands on, or None."""

    def __init__(self, place: Place) -> None:
        """Raises RefusedError for a repository whose settings cannot be read, or that git cannot read."""
        self.place, self.settings = place, settings(place)
        self._there = Git(place.top, git_dir=place.git_dir, settings=self.settings.values)
        self._folder = Path(tempfile.mkdtemp(prefix="hhd-view-"))
        try:
            self._insist_on_working_tree()
            self.branch = self._branch()
            self.head = self._head()
            self._make()
        except BaseException:
            self.close()
            raise
        self.git = Git(place.top, git_dir=self._folder, settings=())  # Ours, as `_config` wrote them: no filter.
        self.env = {
            "GIT_OBJECT_DIRECTORY": str(place.common / "objects"),
            "GIT_INDEX_FILE": str(place.git_dir / "index"),
            "GIT_LITERAL_PATHSPECS": "1",
            "HOME": str(self._folder),
            "XDG_CONFIG_HOME": str(self._folder),
        }

    @property
    def sha256(self) -> bool:
        """Whether objects are named by SHA-256."""
        return self.settings.values.get(b"extensions.objectformat", b"sha1").lower() == b"sha256"

    def run(self, *words: str, stdin: bytes | None = None) -> bytes:
        """What `git WORDS` prints; raises RefusedError with what git said."""
        try:
            return self.git.run(*words, stdin=stdin, env=self.env)
        except GitFailed as error:
            raise self.refused(error) from error

    def refused(self, error: Exception) -> RefusedError:
        """The error for a person when git could not read the repository."""
        return RefusedError(f"git could not read {visible(str(self.place.top), one_line=True)}: {error}")

    def copied(self, name: str) -> bytes:
        """A small file of the repository's own folders, empty if there is none.

        What the worktrees of a repository share lies in its common folder; of the rest each has its own.
        """
        shared = name == "shallow" or (name.startswith(("refs/", "info/")) and name != "info/sparse-checkout")
        try:
            with open_plain((self.place.common if shared else self.place.git_dir) / name) as source:
                raw = source.read(_COPIED_BYTES_MAX + 1)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return b""  # An empty folder may stand where a branch has been packed away.
        except OSError as error:
            raise self.refused(error) from error
        if len(raw) > _COPIED_BYTES_MAX:
            raise self.refused(ValueError(f"{name} is too large"))
        return raw

    def references(self, *patterns: str) -> list[bytes]:
        """The objects that the repository's references of `patterns` stand on, as hexadecimal text."""
        out = self._own("for-each-ref", "--format=%(objectname)", *patterns)
        return sorted(set(out.split())) if out else []

    def close(self) -> None:
        """Remove our folder; again does nothing."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> View:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _own(self, *words: str) -> bytes | None:
        """What git prints in the repository itself: only for words that read references, which run nothing."""
        try:
            return self._there.run(*words)
        except GitFailed:
            return None

    def _insist_on_working_tree(self) -> None:
        top, values = self.place.top, self.settings.values
        if values.get(b"core.bare", b"false").lower() == b"true" and self.place.git_dir == self.place.common:
            raise RefusedError(f"{visible(str(top), one_line=True)} is a bare repository: it has no files to capture.")
        elsewhere = values.get(b"core.worktree")
        if elsewhere is not None and (self.place.git_dir / os.fsdecode(elsewhere)).resolve() != top.resolve():
            raise RefusedError(
                f"The repository in {visible(str(top), one_line=True)} says that its files are elsewhere "
                f"(core.worktree); capture that folder."
            )

    def _branch(self) -> bytes | None:
        text = self.copied("HEAD").strip()
        if text == b"ref: refs/heads/.invalid":  # References are kept in another form: only git can read them.
            out = self._own("symbolic-ref", "-q", "HEAD")
            return out.strip() if out else None
        return text.removeprefix(b"ref:").strip() if text.startswith(b"ref:") else None

    def _head(self) -> bytes | None:
        """The commit that HEAD stands on; None only where it is sure that its branch has none yet."""
        name = os.fsdecode(self.branch or b"")
        loose = self.copied(name) if name and "\0" not in name else b""  # Before git, which would wait at a pipe.
        out = self._own("rev-parse", "--quiet", "--verify", "HEAD^{commit}")
        if out:
            return bytes.fromhex(out.strip().decode("ascii"))
        if self.branch is None:
            raise self.refused(ValueError("HEAD stands on no commit and on no branch"))
        if "\0" in name or loose or self._own("for-each-ref", "--count=1", "--format=x", name) != b"":
            raise self.refused(ValueError("HEAD leads to no commit that can be read (git fsck says more)"))
        return None

    def _make(self) -> None:
        folder = self._folder
        for name in ("info", "refs", "objects"):
            (folder / name).mkdir()
        head = self.head.hex().encode() if self.head is not None else b"ref: " + (self.branch or b"refs/heads/main")
        (folder / "HEAD").write_bytes(head + b"\n")
        for name in ("info/exclude", "info/sparse-checkout", "shallow"):
            if raw := self.copied(name):
                (folder / name).write_bytes(raw)
        for shared in self.place.git_dir.glob("sharedindex.*"):
            with open_plain(shared) as source, open(folder / shared.name, "wb") as copy:
                shutil.copyfileobj(source, copy)  # Not linked: git sets the time of one that it reads.
        (folder / "config").write_text(self._config(), encoding="utf-8", errors="surrogateescape")

    def _config(self) -> str:
        lines = ["[core]", f"repositoryformatversion = {int(self.sha256)}", "bare = false", "autocrlf = false"]
        for name in _BOOLEANS:
            lines.append(f"{name.removeprefix('core.')} = {str(self.settings.flag(name)).lower()}")
        lines.append(f'excludesFile = "{_quoted(self._excludes())}"')
        if self.sha256:
            lines += ["[extensions]", "objectFormat = sha256"]
        return "\n".join(lines) + "\n"

    def _excludes(self) -> str:
        """The person's own ignore file: the one of their settings, or where git looks for it."""
        named = self.settings.values.get(b"core.excludesfile")
        base = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
        path = os.path.join(base, "git", "ignore") if named is None else os.path.expanduser(os.fsdecode(named))
        return path if os.path.isfile(os.path.join(self.place.top, path)) else "/dev/null"


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
