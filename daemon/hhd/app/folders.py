"""Working folders: captured, and made to appear."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hhd.node.workspaces import Workspaces


@contextmanager
def workspaces() -> Iterator[Workspaces]:
    """The verbs on working folders; what a crash had left in one is ended first."""
    from hhd.node import workspaces

    with workspaces.opened() as verbs:
        yield verbs
