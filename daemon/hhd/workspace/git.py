"""git, run so that nothing which came with a repository is executed.

A repository may name programs in its settings, hooks and attributes, and git runs them on `git status` (tried: a nested
repository's core.fsmonitor). So every run here gets a short environment, no settings of the system or the user, and
overrides on the command line, which win over those of the repository: no hooks, no fsmonitor, no filters, no external
diff, no submodules, no protocol, no signing, no prompt, no background work. What a repository's own settings say about
filters is asked first (`git config` runs nothing) and each is emptied by name.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import IO

from hhd.base.text import visible_bytes

OFF = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.attributesFile=/dev/null",
    "core.alternateRefsCommand=true",
    "core.sshCommand=false",
    "core.gitProxy=",
    "core.askPass=false",
    "core.editor=false",
    "core.pager=cat",
    "core.protectNTFS=true",
    "core.protectHFS=true",
    "core.bigFileThreshold=512m",
    "credential.helper=",
    "diff.external=",
    "diff.ignoreSubmodules=none",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    "protocol.allow=never",
    "commit.gpgSign=false",
    "log.showSignature=false",
    "gpg.program=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "core.commitGraph=false",
    "transfer.fsckObjects=true",
)
"""Settings of every run. `protocol.allow=never` also keeps a partial clone from fetching what it lacks."""

_ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_PAGER": "cat",
    "LC_ALL": "C",
}
_KEPT = ("PATH", "HOME", "TMPDIR")
SECONDS_MAX = 600
"""A run that takes longer waits for something that will not come: a pipe among the repository's files, say."""
_FILTER = re.compile(rb"filter\.(.+)\.(?:clean|smudge|process|required)")


class GitFailed(Exception):
    """git ended with another status than 0; the message is what it said last, made safe to print."""


class Git:
    """One repository as seen from one folder of it; runs git there."""

    def __init__(
        self,
        folder: Path,
        *,
        git_dir: Path | None = None,
        apart: Mapping[str, str] = MappingProxyType({}),
        like: Git | None = None,
        settings: Iterable[bytes] | None = None,
    ) -> None:
        """`git_dir`: given, no other repository is looked for, and `folder` is its working tree.

        `apart`: variables of every run, that have git keep new objects or an index elsewhere. `like`: another one of
        the same repository, whose filters are known. `settings`: the names of all that it has, None: git is asked.
        """
        self.folder, self.git_dir, self.apart = folder, git_dir, apart
        self._off: list[str] | None = None if like is None else like._off
        if settings is not None:
            self._off = _words(_filters_off(settings))

    def run(self, *words: str, stdin: bytes | None = None, env: Mapping[str, str] | None = None) -> bytes:
        """Return what `git WORDS` prints; raises GitFailed, and FileNotFoundError where there is no git."""
        return self.ended(*words, stdin=stdin, env=env)[0]

    def ended(
        self,
        *words: str,
        stdin: bytes | None = None,
        env: Mapping[str, str] | None = None,
        statuses: Container[int] = (0,),
    ) -> tuple[bytes, bytes]:
        """Return what `git WORDS` prints, and what it says beside; raises as `run`. `statuses`: those that are fine."""
        try:
            done = subprocess.run(
                self.command(words),
                input=stdin,
                stdin=subprocess.DEVNULL if stdin is None else None,
                capture_output=True,
                cwd=self.folder,
                env=self.environment(env),
                check=False,
                timeout=SECONDS_MAX,
            )
        except subprocess.TimeoutExpired:
            raise GitFailed(f"git {words[0]} did not end within {SECONDS_MAX} seconds") from None
        if done.returncode not in statuses:
            raise GitFailed(said(done.stderr) or f"git {words[0]} ended with status {done.returncode}")
        return done.stdout, done.stderr

    def line(self, *words: str) -> str | None:
        """Return the one line that `git WORDS` prints, without its end; None if git ends with another status than 0."""
        try:
            return os.fsdecode(self.run(*words).rstrip(b"\n"))
        except GitFailed:
            return None

    def parsed(self, *questions: Sequence[str]) -> list[str]:
        """Return what `git rev-parse` answers to each of the questions, asked in one run; raises GitFailed.

        One by one only where an answer, a path, has the end of a line in it.
        """
        said = self.run("rev-parse", *(word for one in questions for word in one)).removesuffix(b"\n").split(b"\n")
        if len(said) != len(questions):
            said = [self.run("rev-parse", *one).removesuffix(b"\n") for one in questions]
        return [os.fsdecode(answer) for answer in said]

    @contextmanager
    def piped(
        self, *words: str, stdin: int | IO[bytes] = subprocess.PIPE, env: Mapping[str, str] | None = None
    ) -> Iterator[subprocess.Popen[bytes]]:
        """`git WORDS` with its input and output as pipes while the block lasts; ended with it."""
        with subprocess.Popen(
            self.command(words),
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=self.folder,
            env=self.environment(env),
        ) as process:
            try:
                yield process
            except BaseException:
                process.kill()
                raise

    def command(self, words: Sequence[str]) -> list[str]:
        """The whole command line for `git WORDS`."""
        if self._off is None:
            self._off = _words(_filters_off(self._filters()))
        return ["git", *self._where(), *self._off, *words]

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """The environment of a run."""
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        return {**kept, **_ENVIRONMENT, **self.apart, **(more or {})}

    def _where(self) -> list[str]:
        if self.git_dir is None:
            return []
        return [f"--git-dir={self.git_dir}", f"--work-tree={self.folder}"]

    def _filters(self) -> list[bytes]:
        """The names of the repository's settings that are of filters."""
        done = subprocess.run(
            ["git", *self._where(), "config", "--null", "--name-only", "--get-regexp", r"^filter\."],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd=self.folder,
            env=self.environment(),
            check=False,
        )
        return done.stdout.split(b"\0")


def _words(overrides: Iterable[str]) -> list[str]:
    return [word for one in (*OFF, *overrides) for word in ("-c", one)]


def _filters_off(settings: Iterable[bytes]) -> list[str]:
    """Overrides that empty each filter that is among the names of `settings`."""
    names = {os.fsdecode(hit[1]) for one in settings if (hit := _FILTER.fullmatch(one))}
    return [
        f"filter.{name}.{key}" for name in sorted(names) for key in ("clean=", "smudge=", "process=", "required=false")
    ]


def said(stderr: bytes) -> str:
    """The line of what git said that says what is wrong, else the last, in a form that can be shown."""
    lines = [line for line in stderr.strip().splitlines() if line]
    lines = [line for line in lines if line.startswith((b"fatal: ", b"error: "))] or lines
    return visible_bytes(lines[-1])[:300] if lines else ""
