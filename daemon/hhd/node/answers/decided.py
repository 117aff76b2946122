"""What a session waits with, and what a person said of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Uncertain:
    """The effect of a session that was begun and not heard of again; `text` is it whole, safe to print as it is."""

    session: str
    effect: int
    op: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A question about the effect that a session waits with: its whole text in `pages`, safe to print as it is.

    `shown`: SHA-256, in hex, of the pages as UTF-8, one after another: what an answer has to bring along. `op`: ""
    where it is asked at another device, which does not say it.
    """

    session: str
    effect: int
    op: str
    pages: tuple[str, ...]
    shown: str


@dataclass(frozen=True, kw_only=True)
class Decided:
    """A person's word on an effect that was noted: ran, did-not-run, again, approved or denied.

    `at`: what the other device is called that noted it, where the session runs; "" for this one.
    """

    session: str
    effect: int
    op: str
    word: str
    at: str = ""
