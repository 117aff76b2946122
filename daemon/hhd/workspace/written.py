"""What became of a materialisation."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hhd.workspace.states import SUBMODULE, State
from hhd_protocol.workspace import Capture


@dataclass(frozen=True, kw_only=True)
class Written:
    """Where the state stands now. `notes`: what the person should know, in sentences."""

    folder: Path
    in_place: bool
    notes: tuple[str, ...] = ()


def notes(capture: Capture, state: State, *, shallow: bool) -> tuple[str, ...]:
    """What is not there, or not as where it came from."""
    found = []
    if shallow:
        found.append("The history is shallow: it ends where the commits that came end.")
    modules = sum(one.mode == SUBMODULE for one in state.index)
    if modules:
        found.append(f"{modules} submodules are empty folders: only the commits they stand on travel.")
    out = len(capture.left_out) + capture.left_out_more
    if out:
        found.append(f"{out} things of the folder were left out when it was captured.")
    return tuple(found)
