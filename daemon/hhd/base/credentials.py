"""Shapes of credentials in text: enough to warn before something leaves a device; no proof that nothing is there.

The rules are data: a name, a literal that must occur (so that most text is passed over by a plain search) and a
pattern. They follow the public documentation of the issuers about how their credentials begin.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Rule:
    """`hint` occurs in every match; `pattern` is bounded, so that hostile text costs linear time."""

    kind: str
    hint: str
    pattern: re.Pattern[str]


def _rule(kind: str, hint: str, pattern: str) -> Rule:
    return Rule(kind=kind, hint=hint, pattern=re.compile(pattern, re.ASCII))


RULES = (
    _rule("a private key", "PRIVATE KEY", r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?-----[\s\S]{0,6000}?(?:-----END [A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?-----|\Z)"),
    _rule("an Anthropic key", "sk-ant-", r"\bsk-ant-[A-Za-z0-9_-]{20,200}"),
    _rule("an OpenAI key", "sk-", r"\bsk-(?!ant-)(?:proj-|svcacct-|admin-)?[A-Za-z0-9_-]{32,200}"),
    _rule("an AWS access key", "AKIA", r"\bAKIA[0-9A-Z]{16}\b"),
    _rule("a temporary AWS access key", "ASIA", r"\bASIA[0-9A-Z]{16}\b"),
    _rule("an AWS secret key", "aws_secret", r"(?i:aws_secret_access_key)[\"']?\s{0,4}[:=]\s{0,4}[\"']?[A-Za-z0-9/+=]{40}\b"),
    _rule("a GitHub token", "gh", r"\bgh[pousr]_[A-Za-z0-9]{36,255}\b"),
    _rule("a GitHub token", "github_pat_", r"\bgithub_pat_[A-Za-z0-9_]{22,255}\b"),
    _rule("a GitLab token", "glpat-", r"\bglpat-[A-Za-z0-9_-]{20,64}"),
    _rule("a Slack token", "xox", r"\bxox[abeoprs]-[A-Za-z0-9-]{10,250}"),
    _rule("a Google key", "AIza", r"\bAIza[0-9A-Za-z_-]{35}\b"),
    _rule("a Stripe key", "_live_", r"\b[rs]k_live_[0-9A-Za-z]{16,250}"),
    _rule("an npm token", "npm_", r"\bnpm_[A-Za-z0-9]{36}\b"),
    _rule("a PyPI token", "pypi-", r"\bpypi-[A-Za-z0-9_-]{50,250}"),
    _rule("a Hugging Face token", "hf_", r"\bhf_[A-Za-z0-9]{30,64}\b"),
    _rule("a signed web token", "eyJ", r"\beyJ[A-Za-z0-9_-]{10,2000}\.eyJ[A-Za-z0-9_-]{10,4000}\.[A-Za-z0-9_-]{10,2000}"),
    _rule("a password in an address", "://", r"(?<=://)[^\s/:@\"']{1,64}:[^\s/@\"']{3,128}(?=@)"),
)  # fmt: skip


def redacted(text: str) -> tuple[str, list[str]]:
    """`text` with each credential shape replaced by `[its kind, removed]`, and the kinds found."""
    found: list[str] = []
    for rule in RULES:
        if rule.hint in text or (rule.hint == "aws_secret" and "AWS_SECRET" in text):
            text, count = rule.pattern.subn(f"[{rule.kind}, removed]", text)
            found += [rule.kind] * count
    return text, found
