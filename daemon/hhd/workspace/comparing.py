"""The tree that a capture's commit has, read from a repository here."""

from __future__ import annotations

from pathlib import Path

from hhd.base.errors import RefusedError
from hhd.workspace.errors import HostileCapture
from hhd.workspace.git import Git
from hhd.workspace.objects import read_tree
from hhd.workspace.states import Tree
from hhd_protocol.errors import FormatError
from hhd_protocol.workspace import Capture


def tree_of(folder: Path, capture: Capture) -> Tree:
    """Return the tree of the commit that `capture` stands on, as the repository of `folder` has it.

    Empty where there is no commit; raises RefusedError where the repository lacks it.
    """
    repository = capture.repository
    if repository is None or repository.head is None:
        return {}
    try:
        return read_tree(Git(folder), repository.head, repository.object_format)
    except (HostileCapture, FormatError) as error:
        commit = repository.head.hex()[:12]
        raise RefusedError(
            f"{folder} lacks commit {commit}, on which the capture stands; they cannot be compared."
        ) from error
