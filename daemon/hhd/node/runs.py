"""Sessions that run in the daemon, asked of it: begun, gone on with, attached to, answered, paused.

A session is named by its id, its title, or the begin of either. `by` is how others who are attached hear this terminal
named. All raise UserError: UsageError, RefusedError where nothing was changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hhd.control.client import Connection
from hhd.node.answers.driven import Begun, Counted, Heard, Rested
from hhd.node.asking import Asking
from hhd_protocol import live


class Runs:
    """The verbs over `connection`. While an `attach` is read, the others go over a connection of their own."""

    def __init__(self, connection: Connection) -> None:
        self._asking = Asking(connection)

    def begin(
        self,
        prompt: str,
        *,
        folder: Path,
        once: bool = False,
        model: str | None = None,
        environment: Mapping[str, str] | None = None,
        key: str | None = None,
    ) -> Begun:
        """Make a session of the agent with `prompt`, to work in `folder`, and run it.

        `environment`: this terminal's, of which tools get what `hhd.effects.environment` lets through. `key`: for the
        model. Both stay in the daemon's memory, for this session. None: what the daemon has.
        """
        given: dict[str, Any] = {"prompt": prompt, "folder": folder, "once": once, "model": model}
        return self._asking.ask("begin", Begun, **given, environment=_pairs(environment), key=key)

    def go_on(
        self,
        name: str,
        *,
        folder: Path | None = None,
        head: str | None = None,
        model: str | None = None,
        settle: tuple[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        key: str | None = None,
    ) -> Begun:
        """Run a session, from where it stands or from another `head`; if it runs, nothing changes.

        `settle`: a person's word on an effect that may have run (ran, did-not-run, again), and its output.
        """
        given: dict[str, Any] = {"name": name, "folder": folder, "head": head, "model": model, "settle": settle}
        return self._asking.ask("go_on", Begun, **given, environment=_pairs(environment), key=key)

    def attach(self, name: str, *, position: int | None = 0, by: str = "") -> Iterator[live.Event]:
        """Yield what happens in a session, whether it runs or not, for as long as it is read (`spec/live.md`).

        First `Attached`, then the transcript from byte `position` on (None: nothing of it), then how the session is
        and what it asks, then what comes.
        """
        return self._asking.live("attach", name=name, position=position, by=by)

    def say(self, name: str, text: str, *, by: str = "") -> Heard:
        """Say something to a session; one that waits for words, or rests, is started for it."""
        return self._asking.ask("say", Heard, name=name, text=text, by=by)

    def answer(self, name: str, id: str, *, shown: bytes, choice: str, message: str = "", by: str = "") -> Counted:
        """Answer a `live.Question`; the first answer counts.

        `choice`: yes, always, no, or later, which leaves it to others. `shown`: the digest of what went to the screen.
        """
        given: dict[str, Any] = {"name": name, "id": id, "shown": shown, "choice": choice, "message": message, "by": by}
        return self._asking.ask("answer", Counted, **given)

    def pause(self, name: str) -> Rested:
        """Pause a session; durable when this returns."""
        return self._asking.ask("pause", Rested, name=name)

    def at_work(self) -> tuple[str, ...]:
        """Return the sessions of this device that run in the daemon, or go on there by themselves, by their ids."""
        found: tuple[str, ...] = self._asking.ask("at_work", tuple[str, ...], changes=False)
        return found

    def keys(self, name: str, line: str, *, by: str) -> bool:
        """Show the others what stands on this terminal's line, and is not said yet."""
        return self._asking.ask("keys", bool, changes=False, name=name, line=line, by=by)


def _pairs(environment: Mapping[str, str] | None) -> tuple[tuple[str, str], ...] | None:
    return None if environment is None else tuple(environment.items())
