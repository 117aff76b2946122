"""Errors that are meant for the person at the terminal, with the exit statuses they end in."""

from __future__ import annotations

import enum


class Exit(enum.IntEnum):
    """Exit statuses, the same everywhere in hhd."""

    DONE = 0
    UNEXPECTED = 1
    USAGE = 2
    REFUSED = 3
    ROLLED_BACK = 4
    UNCERTAIN = 5


class UserError(Exception):
    """One sentence for a person: what happened, what we did, what they can do next."""

    exit = Exit.UNEXPECTED


class UsageError(UserError):
    """The words of the command are off."""

    exit = Exit.USAGE


class RefusedError(UserError):
    """Refused, with nothing changed."""

    exit = Exit.REFUSED


class RolledBackError(UserError):
    """Failed, with what was begun undone."""

    exit = Exit.ROLLED_BACK


class UncertainError(UserError):
    """It cannot be known what happened; the sentence says what to run next."""

    exit = Exit.UNCERTAIN


def error_of(exit: Exit, sentence: str) -> UserError:
    """Return the error that ends in `exit`: one that happened in another process, and is said in this one."""
    for kind in (UsageError, RefusedError, RolledBackError, UncertainError):
        if kind.exit == exit:
            return kind(sentence)
    return UserError(sentence)
