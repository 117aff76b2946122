"""What can be wrong with a workspace, in words for a person."""

from __future__ import annotations

from pathlib import Path

from hhd.base.errors import RefusedError, RolledBackError, UncertainError


class HostileCapture(RefusedError):
    """What arrived breaks a rule of what may be written; nothing was."""


class NotOurs(RefusedError):
    """The folder holds what hhd did not put there and would lose; nothing was changed."""


class UnfinishedWrite(RolledBackError):
    """Writing failed half-way (a full disk, say) and was undone."""


class LeftBetween(UncertainError):
    """A change, or taking one back, did not come to its end; the sentence says what there is and what to do."""


class Meddled(Exception):
    """Something is not as it was when the change was planned; the message is one sentence that names it."""


class Unready(Exception):
    """What was prepared ahead does not fit any more, or cannot be: nothing was changed, and it is done all at once."""


def unclean(folder: Path, error: OSError) -> LeftBetween:
    """What is said when only the tidying up failed."""
    return LeftBetween(
        f"What was prepared for {folder} could not be tidied up ({error.strerror}); the next start of hhd does it, "
        "and `hhd workspace diff` says what the folder holds."
    )
