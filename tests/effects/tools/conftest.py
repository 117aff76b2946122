"""What tests of tools share: a workspace, and one call of a tool in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hhd.effects.cancel import Cancel
from hhd.effects.confine import PathRefused, Workspace
from hhd.effects.sandbox import Sandbox
from hhd.effects.tools.table import TOOLS
from hhd.effects.tools.tool import Context, Reply, failed

PLAIN = Sandbox(program=None, reason="switched off by the test", network=True, hidden=())
PATH = {"PATH": "/usr/local/bin:/usr/bin:/bin"}

Run = Callable[..., Reply]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "work"
    place.mkdir()
    return place


@pytest.fixture
def cancel() -> Iterator[Cancel]:
    wish = Cancel()
    yield wish
    wish.close()


@pytest.fixture
def run(folder: Path, cancel: Cancel) -> Run:
    """Run a tool by name with the given input, as the executor would."""

    def act(name: str, *, sandbox: Sandbox = PLAIN, environment: dict[str, str] = PATH, **given: object) -> Reply:
        tool = TOOLS[name]
        with Workspace(folder) as workspace:
            context = Context(workspace=workspace, sandbox=sandbox, environment=environment, cancel=cancel)
            try:
                return tool.act(tool.input(**given), context)
            except PathRefused as error:
                return failed(str(error))
            except OSError as error:
                return failed(f"OSError: {error}")

    return act
