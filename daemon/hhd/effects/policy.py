"""What this device lets a tool do unasked, asks about, or refuses.

The rules come from this device's own configuration and from nowhere else: no workspace, capsule or peer adds one. In
`[policy]` there are three lists, `allow`, `ask` and `deny`, of rules `TOOL` or `TOOL(PATTERN)`:

    allow = ["bash(git status)", "bash(npm test *)", "write(docs/**)"]
    deny  = ["bash(git push *)", "read(**/.env)"]

Deny beats ask beats allow; where no rule speaks, `DEFAULTS` does. A pattern never widens by accident:

* A pattern of bash is matched against a whole command, word by word. A final `*` stands for any further words. A
  command with anything of the shell in it (`shellwords`) matches no pattern at all; only the bare rule `bash` allows
  it, and not even that where some pattern asks or denies: it may contain what that is about, so it is asked about.
* A pattern of a file tool is a path below the workspace (`globs`). A stricter rule for `read` holds for `grep` too, and
  a search passes over what stricter rules speak of. Both the path as written and the one that links lead
  to must fit to be allowed; one of them is enough to be asked about or denied. For these, case and Unicode form
  make no difference, since some file systems make none.

A deny rule for bash is a reminder, not a wall: a program has many names. The wall is the sandbox.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass

from hhd.base.errors import RefusedError
from hhd.base.text import visible
from hhd.effects import shellwords
from hhd.effects.tools.gitplace import is_git_name
from hhd.effects.tools.globs import Glob, GlobRefused, folded
from hhd.effects.tools.tool import Subject


class Verdict(enum.IntEnum):
    """What to do with a call; the greater beats the smaller."""

    ALLOW = 1
    ASK = 2
    DENY = 3


DEFAULTS: Mapping[str, Verdict] = {
    "read": Verdict.ALLOW, "glob": Verdict.ALLOW, "grep": Verdict.ALLOW,
    "bash": Verdict.ASK, "write": Verdict.ASK, "edit": Verdict.ASK,
}  # fmt: skip
"""Where no rule of the person speaks."""

_RULE = re.compile(r"([a-z]+)(?:\((.*)\))?", re.DOTALL)
_LISTS = {"allow": Verdict.ALLOW, "ask": Verdict.ASK, "deny": Verdict.DENY}


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One line of the person's: `text` as they wrote it. `words` or `glob` hold the pattern, neither means any call."""

    verdict: Verdict
    tool: str
    text: str
    words: tuple[str, ...] | None = None
    open_end: bool = False
    glob: Glob | None = None
    pattern: str = ""

    def speaks_of(self, subject: Subject) -> bool:
        """Whether this rule decides about `subject`."""
        if subject.tool != self.tool and not (subject.tool == "grep" and self.keeps_from_reading):
            return False
        if self.words is not None:
            return self._command(subject)
        if self.glob is None:
            return True
        if self.verdict is Verdict.ALLOW:
            return bool(subject.places) and all(self.glob.matches(_parts(place)) for place in subject.places)
        return any(self.glob.matches(_parts(folded(place))) for place in subject.places)

    @property
    def keeps_from_reading(self) -> bool:
        """Whether this is a stricter rule for `read`; it holds for `grep` too, which shows as much."""
        return self.tool == "read" and self.verdict is not Verdict.ALLOW

    def _command(self, subject: Subject) -> bool:
        assert self.words is not None and subject.command is not None
        found = shellwords.words(subject.command)
        if found is None:
            return False
        return self._fits(found) or (self.verdict is not Verdict.ALLOW and self._fits((_base(found[0]), *found[1:])))

    def _fits(self, found: tuple[str, ...]) -> bool:
        assert self.words is not None
        return found[: len(self.words)] == self.words and (self.open_end or len(found) == len(self.words))


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """A verdict and its reason, in words for the person. `special`: something about this very call, not a default."""

    verdict: Verdict
    reason: str
    special: bool = True


@dataclass(frozen=True, kw_only=True)
class Policy:
    """The person's rules for tools on this device."""

    rules: tuple[Rule, ...] = ()

    @classmethod
    def from_table(cls, table: Mapping[str, object]) -> Policy:
        """Read the TOML table `[policy]`, its keys `sandbox` and `environment` left to others; raises RefusedError."""
        rules: list[Rule] = []
        for key, value in table.items():
            if key in ("sandbox", "environment"):
                continue
            if key not in _LISTS:
                raise RefusedError(
                    f"[policy] has no setting {key!r}; it has allow, ask, deny, environment and sandbox."
                )
            if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
                raise RefusedError(f'[policy] {key} must be a list of rules such as "read" or "bash(git status)".')
            rules += [parse_rule(text, _LISTS[key]) for text in value]
        return cls(rules=tuple(rules))

    def judge(self, subject: Subject) -> Judgement:
        """What to do with the call that `subject` describes."""
        speaking = [rule for rule in self.rules if rule.speaks_of(subject)]
        strongest = max(speaking, key=lambda rule: rule.verdict, default=None)
        if strongest is not None and strongest.verdict is not Verdict.ALLOW:
            return Judgement(verdict=strongest.verdict, reason=f"your rule {visible(strongest.text, one_line=True)}")
        if (doubt := self._doubt(subject)) is not None:
            return Judgement(verdict=Verdict.ASK, reason=doubt)
        if strongest is not None:
            return Judgement(verdict=Verdict.ALLOW, reason=f"your rule {visible(strongest.text, one_line=True)}")
        if any(is_git_name(part) for place in subject.places for part in _parts(place)):
            return Judgement(verdict=Verdict.ASK, reason="git's own files, which may hold credentials")
        verdict = DEFAULTS.get(subject.tool, Verdict.ASK)
        return Judgement(verdict=verdict, reason="no rule of yours speaks of it", special=False)

    def passed_over(self, subject: Subject) -> tuple[str, ...]:
        """Patterns of places that a search judged as `subject` does not look into: stricter rules speak of them.

        A rule that speaks of where the search begins is not among them: about that the person was asked.
        """
        return tuple(
            folded(rule.pattern)
            for rule in self.rules
            if rule.pattern and rule.verdict is not Verdict.ALLOW and rule.glob is not None
            if rule.tool == subject.tool or (subject.tool == "grep" and rule.keeps_from_reading)
            if not rule.speaks_of(subject)
        )

    def _doubt(self, subject: Subject) -> str | None:
        """Why a command must be asked about though no rule matches it: a stricter rule may speak of part of it."""
        if subject.command is None:
            return None
        strict = [
            rule for rule in self.rules if rule.tool == "bash" and rule.words and rule.verdict is not Verdict.ALLOW
        ]
        found = shellwords.words(subject.command)
        if strict and (found is None or shellwords.wraps_another(found)):
            return f"it may contain what your rule {visible(strict[0].text, one_line=True)} is about"
        return None


def parse_rule(text: str, verdict: Verdict) -> Rule:
    """Read one rule; raises RefusedError with what is wrong and what to write instead."""
    shown = visible(text, one_line=True)
    match = _RULE.fullmatch(text)
    if match is None or match[1] not in DEFAULTS:
        raise RefusedError(f"The rule {shown!r} is not TOOL or TOOL(PATTERN); tools are {', '.join(sorted(DEFAULTS))}.")
    tool, pattern = match[1], match[2]
    if pattern is None:
        return Rule(verdict=verdict, tool=tool, text=text)
    if tool == "bash":
        return _bash_rule(text, pattern, verdict)
    try:
        glob = Glob(pattern if verdict is Verdict.ALLOW else folded(pattern))
        glob.matches(("x",))
    except GlobRefused as error:
        raise RefusedError(f"The rule {shown!r} cannot be used: {error}") from None
    return Rule(verdict=verdict, tool=tool, text=text, glob=glob, pattern=pattern)


def _bash_rule(text: str, pattern: str, verdict: Verdict) -> Rule:
    shown = visible(text, one_line=True)
    open_end = pattern == "*" or pattern.endswith((" *", "\t*"))
    if pattern == "*" and verdict is not Verdict.ALLOW:
        return Rule(verdict=verdict, tool="bash", text=text)
    found = shellwords.words(pattern[:-1] if open_end else pattern)
    if pattern == "*" or (found and open_end and verdict is Verdict.ALLOW and shellwords.says_nothing(found)):
        raise RefusedError(f"The rule {shown!r} would allow any command at all; if that is meant, write bash.")
    if found is None:
        raise RefusedError(
            f"The rule {shown!r} cannot be used: a pattern of bash is one plain command, without anything of the shell "
            "but quotes; a single * may stand at its end for any further words."
        )
    return Rule(verdict=verdict, tool="bash", text=text, words=found, open_end=open_end)


def _parts(place: str) -> tuple[str, ...]:
    return () if place == "." else tuple(place.split("/"))


def _base(word: str) -> str:
    return word.rpartition("/")[2]
