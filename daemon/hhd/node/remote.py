"""The verbs of `ControlService`, asked of the daemon that runs: the same arguments, answers and errors.

What does not fit a message, a capsule of many megabytes, is taken in by this process itself: the store is shared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from hhd.control.client import Connection, TooLargeRequestError
from hhd.node.answers.decided import Asked, Decided, Uncertain
from hhd.node.answers.difference import Difference
from hhd.node.answers.heads import Heads
from hhd.node.answers.logged import Logged
from hhd.node.answers.made import Exported, Exporting, Forked
from hhd.node.answers.removal import Removal
from hhd.node.answers.shown import Shown
from hhd.node.answers.takeover import Takeable, TakenOver
from hhd.node.answers.transferred import Transferred
from hhd.node.answers.wished import Wished
from hhd.node.asking import Asking, values

if TYPE_CHECKING:
    from hhd.node.control import ControlService

LOOKING = ("show", "heads", "diff", "uncertain", "asked", "removal", "takeable", "transfers")
CHANGING = ("rename", "archive", "pick", "fork", "import_capsule", "settle", "decide", "remove", "take_over")
DECIDING = ("uncertain", "settle", "asked", "decide")
"""Those of them that go to the device where the session runs."""
STREAMS = ("transcript", "log", "export")
"""Methods of `ControlService` by their kind, for both sides; each with the arguments it has here, in `Remote`. Who
follows a log asks for it again."""

T = TypeVar("T")


class Remote:
    """The verbs over `connection`; `here` opens them in this process."""

    def __init__(self, connection: Connection, here: Callable[[], AbstractContextManager[ControlService]]) -> None:
        self._asking, self._here = Asking(connection), here

    # Looking

    def show(self, name: str, *, head: str | None = None) -> Shown:
        """As `ControlService.show`."""
        return self._ask(Shown, "show", name=name, head=head)

    def transcript(self, name: str, *, head: str | None = None) -> Iterator[bytes]:
        """As `ControlService.transcript`."""
        yield from self._stream(bytes, "transcript", name=name, head=head)

    def log(self, name: str, *, since: str | None = None, newest: int | None = None) -> list[Logged]:
        """As `ControlService.log`."""
        return list(self._stream(Logged, "log", name=name, since=since, newest=newest))

    def follow(
        self, name: str, *, since: str | None = None, newest: int | None = None, wait: Callable[[], bool]
    ) -> Iterator[Logged]:
        """As `ControlService.follow`: the log is asked for again after each `wait`."""
        session = None
        asked = None if newest is None else max(newest, 1)  # Of none, the last says from where to go on.
        while True:
            for one in self._stream(Logged, "log", name=session or name, since=since, newest=asked):
                since = one.position
                if asked is None or newest:
                    yield one
            asked = None
            if not wait():
                return
            session = session or self.show(name).session  # However titles change, it is followed.

    def heads(self, name: str, *, with_archived: bool = False) -> Heads:
        """As `ControlService.heads`."""
        return self._ask(Heads, "heads", name=name, with_archived=with_archived)

    def diff(self, name: str, one: str | None = None, other: str | None = None) -> Difference:
        """As `ControlService.diff`."""
        return self._ask(Difference, "diff", name=name, one=one, other=other)

    # Wishing

    def rename(self, name: str, title: str | None, *, head: str | None = None) -> Wished:
        """As `ControlService.rename`."""
        return self._ask(Wished, "rename", name=name, title=title, head=head)

    def archive(self, name: str, *, undo: bool = False, head: str | None = None) -> Wished:
        """As `ControlService.archive`."""
        return self._ask(Wished, "archive", name=name, undo=undo, head=head)

    def pick(self, name: str, head: str | None) -> Wished:
        """As `ControlService.pick`."""
        return self._ask(Wished, "pick", name=name, head=head)

    # Making another

    def fork(self, name: str, *, at: str | None = None) -> Forked:
        """As `ControlService.fork`."""
        return self._ask(Forked, "fork", name=name, at=at)

    def export(
        self,
        name: str,
        *,
        head: str | None = None,
        to: str | None = None,
        passphrase: bytes | None = None,
        embed: bool = True,
    ) -> Exported:
        """As `ControlService.export`."""
        given = {"name": name, "head": head, "to": to, "passphrase": passphrase, "embed": embed}
        events = self._asking.connection.stream("export", values(given))
        made: Exporting = self._asking.read(Exporting, next(events, None))
        return Exported(**vars(made), parts=(self._asking.read(bytes, one) for one in events))

    def import_capsule(
        self, raw: bytes, path: Path, *, passphrase: bytes | None = None, module: bytes | None = None
    ) -> Forked:
        """As `ControlService.import_capsule`."""
        try:
            given = {"raw": bytes(raw), "path": str(path), "passphrase": passphrase, "module": module}
            return self._ask(Forked, "import_capsule", **given)
        except TooLargeRequestError:
            with self._here() as verbs:
                return verbs.import_capsule(raw, path, passphrase=passphrase, module=module)

    # Deciding

    def uncertain(self, name: str, effect: str | None = None) -> Uncertain:
        """As `ControlService.uncertain`."""
        return self._ask(Uncertain, "uncertain", name=name, effect=effect)

    def settle(self, name: str, effect: str | None, *, how: str, output: str = "", shown: str | None = None) -> Decided:
        """As `ControlService.settle`."""
        return self._ask(Decided, "settle", name=name, effect=effect, how=how, output=output, shown=shown)

    def asked(self, name: str, effect: str | None = None, *, folder: Path | None = None) -> Asked:
        """As `ControlService.asked`."""
        return self._ask(Asked, "asked", name=name, effect=effect, folder=folder)

    def decide(
        self,
        name: str,
        effect: str | None = None,
        *,
        shown: str,
        agreed: bool,
        message: str = "",
        folder: Path | None = None,
    ) -> Decided:
        """As `ControlService.decide`."""
        given = {"name": name, "effect": effect, "shown": shown, "agreed": agreed, "message": message}
        return self._ask(Decided, "decide", **given, folder=folder)

    # Removing

    def removal(self, name: str, *, everywhere: bool = False) -> Removal:
        """As `ControlService.removal`."""
        return self._ask(Removal, "removal", name=name, everywhere=everywhere)

    def remove(self, shown: Removal) -> Removal:
        """As `ControlService.remove`."""
        return self._ask(Removal, "remove", shown=shown)

    # From device to device

    def takeable(self, name: str, *, head: str | None = None) -> Takeable:
        """As `ControlService.takeable`."""
        return self._ask(Takeable, "takeable", name=name, head=head)

    def take_over(self, shown: Takeable, reason: str) -> TakenOver:
        """As `ControlService.take_over`."""
        return self._ask(TakenOver, "take_over", shown=shown, reason=reason)

    def transfers(self) -> list[Transferred]:
        """As `ControlService.transfers`."""
        return self._ask(list[Transferred], "transfers")

    # How it is asked

    def _ask(self, wanted: type[T], verb: str, **given: object) -> T:
        return self._asking.ask(verb, wanted, changes=verb not in LOOKING, **given)

    def _stream(self, wanted: type[T], verb: str, **given: object) -> Iterator[T]:
        return self._asking.stream(verb, wanted, **given)
