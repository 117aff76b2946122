"""What became of a materialisation."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hhd.base.text import short, visible_bytes
from hhd.workspace.states import SUBMODULE, State
from hhd_protocol.workspace import Capture, Reason


@dataclass(frozen=True, kw_only=True)
class Written:
    """Where the state stands now. `notes`: what the person should know, in sentences."""

    folder: Path
    in_place: bool
    notes: tuple[str, ...] = ()


STAYS = {
    Reason.CREDENTIALS: "credentials",
    Reason.SPECIAL: "no plain file",
    Reason.UNREADABLE: "unreadable",
    Reason.TOO_LARGE: "too large",
    Reason.REPOSITORY: "a repository of its own",
    Reason.NAME: "a name that cannot travel",
    Reason.CHANGING: "it was being written",
    Reason.SUBMODULE: "changes of a submodule",
}
"""What is not in a capture though nobody said so, and why; what git ignores stays because a person said so."""
NAMES_SHOWN, NAME_CHARS = 3, 60


def notes(capture: Capture, state: State, *, shallow: bool) -> tuple[str, ...]:
    """What is not there, or not as where it came from."""
    found = []
    if shallow:
        found.append("The history is shallow: it ends where the commits that came end.")
    modules = sum(one.mode == SUBMODULE for one in state.index)
    if modules:
        found.append(f"{modules} submodules are empty folders: only the commits they stand on travel.")
    stayed = [one for one in capture.left_out if one.reason in STAYS]
    if stayed or capture.left_out_more:
        shown = [f"{short(visible_bytes(one.path), NAME_CHARS)} ({STAYS[one.reason]})" for one in stayed[:NAMES_SHOWN]]
        more = len(stayed) - len(shown) + capture.left_out_more
        found.append(f"Stayed where it came from: {', '.join([*shown, *([f'{more} more'] if more else [])])}.")
    return tuple(found)
