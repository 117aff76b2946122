"""Where text looks as if it held a credential: for warning a person, so with few false alarms and never the secret.

The shapes are those of `hhd.base.credentials`. What only stands for a credential (an example of a manual, a variable to
be filled in, a private key's first line in code that reads keys) is passed over by the table `_NO_SECRETS`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from hhd.base.credentials import RULES

_BINARY_BYTES = 8192
"""With a NUL among so many first bytes, content is taken for binary, as git does."""

_NO_SECRETS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"example|sample|dummy|placeholder|redacted|changeme|change[-_]me|your[-_]|insert[-_]|fake|not[-_]?(?:a[-_]?)?real",
        r"\$\{?[a-z_]|<[a-z_ -]{1,40}>|\{\{|%\(|%s|\{[a-z_]*\}",
        r"x{6,}|(.)\1{9,}|\*{3,}|\.\.\.|abcdef(?:ghij|0123)|0123456789|1234567890",
        r":(?:pass(?:word|wd)?|secret|token|postgres|root|admin|test|guest|user|hunter2|pw)$",
    )
)
"""What says of itself that it is none. A real key matches one of these once in many thousands."""

_KEY_BODY = re.compile(r"-----[\\rn\s]{1,8}(?:[A-Za-z-]{1,30}: [^\n]{0,200}\n){0,4}\s{0,8}[A-Za-z0-9+/]{40}")
"""A private key has at least a line of base64 behind its first line."""


@dataclass(frozen=True, kw_only=True)
class Suspect:
    """A credential shape: its `kind` (the rule's name) and the line it begins in, from 1."""

    kind: str
    line: int


def suspects(raw: bytes) -> list[Suspect]:
    """Return the credential shapes in `raw`, in their order; none for what is no text."""
    if b"\0" in raw[:_BINARY_BYTES]:
        return []
    text = raw.decode("latin-1")
    found = sorted(set(_matches(text)))
    return [Suspect(kind=kind, line=text.count("\n", 0, at) + 1) for at, kind in found]


def _matches(text: str) -> Iterator[tuple[int, str]]:
    for rule in RULES:
        if rule.hint not in text and not (rule.hint == "aws_secret" and "AWS_SECRET" in text):
            continue
        for hit in rule.pattern.finditer(text):
            if rule.hint == "PRIVATE KEY":
                if not _KEY_BODY.search(hit[0]):
                    continue
            elif any(one.search(hit[0]) for one in _NO_SECRETS):
                continue
            yield hit.start(), rule.kind
