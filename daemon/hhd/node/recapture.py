"""Captures the folder of a session that rests, so that what its person changed there meanwhile goes along with it."""

from __future__ import annotations

from pathlib import Path

from hhd.base import config
from hhd.base.errors import UserError
from hhd.node import files_due, here, pair, workbench
from hhd.node.captures import Captures
from hhd.node.stored_session import StoreKeeper
from hhd.node.workbench import Workbench
from hhd_protocol.ids import SessionId, StatementId


def recaptured(end: pair.End, wish: pair.Recapture) -> None:
    """Do so in a process of its own, and say how it went."""
    try:
        if wish.config is not None:
            config.hold(wish.config)
        with workbench.opened() as bench:
            folder, appearance = recapture(bench, SessionId(StatementId(wish.session)))
    except UserError as error:
        end.say(pair.Recaptured(problem=str(error)))
        return
    end.say(pair.Recaptured(folder=str(folder), appearance=appearance))


def recapture(bench: Workbench, session: SessionId) -> tuple[Path | None, bytes | None]:
    """Write a checkpoint if the folder is not as the last one has it; raises UserError where it may not be written.

    Returns the folder, and what it looked like before that (`hhd.workspace.appearance`).
    """
    noted = here.noted(bench.store, session)
    if noted is None or noted.folder is None or not noted.folder.is_dir() or files_due.are_due(bench.store, session):
        return None, None
    keeper = StoreKeeper(bench.store, bench.me, session)
    try:
        keeper.owner.folder = noted.folder
        captures = Captures(bench.store, session, noted.folder, last=keeper.workspace, say=lambda _: None)
        keeper.captures = captures
        keeper.rest()
        return noted.folder, captures.appearance
    finally:
        keeper.close()
