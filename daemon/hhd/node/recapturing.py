"""The folder of a session that rests is captured before it is handed on, and again then, unless it looks as before."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

from hhd.base import config
from hhd.base.errors import UserError
from hhd.node import pair
from hhd.node.spares import Spares
from hhd_protocol.ids import SessionId


class Recapturing:
    """All of one daemon; used by the loop's thread. `captured`: called with a session after each of its captures."""

    def __init__(self, spares: Spares, captured: Callable[[SessionId], None]) -> None:
        self._spares, self._captured = spares, captured
        self._seen: dict[SessionId, tuple[Path, bytes]] = {}
        """Where each session works whose folder was captured, and what that looked like before."""

    async def capture(self, session: SessionId) -> None:
        """Have its newest checkpoint name its folder as it is now; raises UserError, OSError where that cannot be."""
        self._seen.pop(session, None)
        said = await self._spares.once(pair.Recapture(session=session, config=config.held()))
        if said.appearance is not None:
            self._seen[session] = Path(said.folder), said.appearance
        self._captured(session)

    async def again(self, session: SessionId) -> None:
        """Do so once more, unless the folder looks as before the last one; where it cannot be, that one stands."""
        folder, seen = self._seen.pop(session, (None, None))
        if folder is not None and await asyncio.to_thread(_looks, folder) == seen:
            return
        with contextlib.suppress(UserError, OSError):
            await self.capture(session)
        self._seen.pop(session, None)


def _looks(folder: Path) -> bytes | None:
    from hhd.workspace.appearance import appearance  # With all of workspace: most that a daemon does has no use for it.

    return appearance(folder)
