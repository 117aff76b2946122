"""How a session is driven at the terminal and gone on with later, be it in a capsule file or in the store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from hhd.app import capsules, driving
from hhd.base.text import visible
from hhd.cli.typed import typed

if TYPE_CHECKING:
    from hhd.cli.foreground import Foreground
    from hhd.node.ended import Ended
    from hhd.node.workbench import Workbench
    from hhd.runtime.outcomes import StopFlag
    from hhd_protocol.ids import SessionId

SHORT = 12
"""Letters of a session's id that are shown, and enough to type."""


class Kept(Protocol):
    """A session, kept somewhere."""

    def on(self) -> str:
        """The command that goes on with it, as a sentence."""

    def over(self) -> str:
        """What is said of it once it has finished."""

    def fields(self) -> Mapping[str, object]:
        """What the JSON object says of it."""


class Driven(Kept, Protocol):
    """A session that this process can drive."""

    def go(self, face: Foreground, stop: StopFlag) -> Ended:
        """Drive it until it ends, waits or is interrupted."""


@dataclass(frozen=True, kw_only=True)
class InFile:
    """A session in the capsule at `file`."""

    file: Path
    module: Path | None
    folder: Path | None
    model: str | None
    settle: tuple[str, str] | None = None

    def go(self, face: Foreground, stop: StopFlag) -> Ended:
        return driving.go_on_with_capsule(
            self.file,
            folder=self.folder or Path(),
            model=self.model,
            face=face,
            stop=stop,
            module=self.module,
            settle=self.settle,
        )

    def on(self) -> str:
        return how_to_go_on(f"hhd capsule run {typed(self.file)}", self.folder, self.model)

    def over(self) -> str:
        return ""

    def fields(self) -> Mapping[str, object]:
        return {**capsules.info(self.file).fields(), "capsule": str(self.file)}


@dataclass(frozen=True, kw_only=True)
class InStore:
    """The session `session` of the store; `folder`: None for where it last was at work here."""

    bench: Workbench
    session: SessionId
    folder: Path | None
    model: str | None
    settle: tuple[str, str] | None = None

    def go(self, face: Foreground, stop: StopFlag) -> Ended:
        return self.bench.go_on(
            self.session, folder=self.folder, model=self.model, face=face, stop=stop, settle=self.settle
        )

    def on(self) -> str:
        nowhere = self.folder is None and self.bench.folder(self.session) is None
        return how_to_go_on(f"hhd resume {self._short}" + (" -C DIR" if nowhere else ""), self.folder, self.model)

    def over(self) -> str:
        return f"Session {self._short} has finished; see it with: hhd show {self._short}"

    def fields(self) -> Mapping[str, object]:
        return self.bench.fields(self.session)

    @property
    def _short(self) -> str:
        return self.session.hex()[:SHORT]


def how_to_go_on(command: str, folder: Path | None, model: str | None) -> str:
    """The sentence that names `command` with the folder and model of this time."""
    import shlex

    words = command
    words += f" -C {typed(folder)}" if folder is not None else ""
    words += f" --model {shlex.quote(visible(model, one_line=True))}" if model is not None else ""
    return f"Go on with: {words}"
