"""Sessions that run in the daemon, from a terminal: begun, gone on with, attached to, spoken to, paused."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from hhd.app import daemons, sessions

if TYPE_CHECKING:
    from hhd.control.talk import Talk
    from hhd.node.attending import Attending
    from hhd.node.ended import Ended
    from hhd.node.runs import Runs
    from hhd_protocol import live


@contextmanager
def runs(*, starts: bool) -> Iterator[Runs | None]:
    """The verbs on running sessions; None where no daemon runs. `starts`: one is started then."""
    link = sessions.daemon_link()
    if link is None and starts:
        daemons.up()
        link = sessions.daemon_link()
    if link is None:
        yield None
        return
    from hhd.node.runs import Runs

    with link:
        yield Runs(link)


def attending(name: str, *, position: int | None, by: str) -> Attending:
    """A terminal at the session that `name` means, not attached yet."""
    from hhd.node import attending as door

    return door.Attending(_talk, name, position=position, by=by)


def _talk() -> Talk | None:
    from hhd.base.paths import data_folder
    from hhd.base.release import RELEASE
    from hhd.control import address, talk

    path = address.said(data_folder())
    return None if path is None else talk.connect(path, hhd=RELEASE)


def environment() -> dict[str, str]:
    """Of this terminal, what goes along with a session: variables that its tools may have, what its model needs."""
    from hhd.node import terminal

    return terminal.environment(os.environ)


def model(name: str | None) -> str | None:
    """The model called `name` here, as the daemon finds it."""
    from hhd.node import terminal

    return terminal.model(name, Path())


def fields(session: str) -> dict[str, object]:
    """What the JSON object of a run says of a session, by its id."""
    from hhd.node import workbench

    with workbench.opened() as bench:
        return bench.fields(bench.named(session))


def ended(state: live.State, spent: live.Spent) -> Ended:
    """How a run in the daemon ended, as one in this process says it."""
    from hhd.effects.spend import Spend
    from hhd.node.ended import End, Ended

    end = {"finished": End.FINISHED, "paused": End.INTERRUPTED}.get(state.name, End.WAITING)
    return Ended(
        end=end,
        status=state.status,
        effect=state.effect or None,
        sentence=state.sentence,
        ways=state.ways,
        spent=Spend(calls=spent.calls, tokens=spent.tokens),
    )
