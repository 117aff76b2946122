"""The verbs of `ControlService` as the control socket carries them: by name, with arguments and results by field.

Each runs in a thread of its kind (`hhd.node.lanes`). A stream holds nothing between two of its parts, so one that
nobody reads costs nothing but its place.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeVar

from hhd.base.errors import RefusedError
from hhd.node.answers.logged import Logged
from hhd.node.answers.made import Exported, Exporting
from hhd.node.control import ControlService
from hhd.node.lanes import Lanes
from hhd.node.listed import Overview
from hhd.node.relay.ports import Elsewhere
from hhd.node.remote import CHANGING, DECIDING, LOOKING, STREAMS, Remote
from hhd.node.service import Verb
from hhd_protocol.codec import Value
from hhd_protocol.limits import CONTROL_PART_BYTES_MAX

PULL_BYTES = 4 * 1024 * 1024
"""Of a transcript that is read from the store at a time."""
EXPORTS_MAX = 4
"""Exports under way: each lies in memory whole."""

if TYPE_CHECKING:
    from hhd.node.relay.listing import Told

T = TypeVar("T")
Open = Callable[[], AbstractContextManager[ControlService]]


class Verbs:
    """The verbs on sessions as a part of the daemon: `opened` gives them, `overview` the list of sessions."""

    def __init__(self, *, opened: Open, overview: Callable[[str, bool, bool], Overview], lanes: Lanes) -> None:
        self._opened, self._overview, self._lanes = opened, overview, lanes
        self._exports = 0
        self.elsewhere: Elsewhere | None = None
        """Sessions at other devices: what they wait with is decided there."""

    def verbs(self) -> dict[str, Verb]:
        """As `hhd.node.service.Part`: each has the arguments that it has in `Remote`."""
        table = {"sessions": Verb(self._sessions, changes=False)}
        for name in (*LOOKING, *CHANGING):
            act = functools.partial(self._plain, name)
            table[name] = Verb(act, changes=name in CHANGING, like=getattr(Remote, name))
        for name in STREAMS:
            table[name] = Verb(getattr(self, f"_{name}"), changes=False, like=getattr(Remote, name))
        return table

    async def run(self) -> None:
        """Nothing of its own."""

    async def stop(self) -> None:
        """What is being done is done."""

    async def _sessions(self, query: str, with_archived: bool, exact: bool = False) -> Value:
        told = await self._told()
        if told is not None:
            here = await self._lanes.lists.do(lambda: self._overview("", False, False))
            return told.overview(here.device, query, with_archived=with_archived).value()
        return await self._lanes.lists.do(lambda: self._overview(query, with_archived, exact).value())

    async def _plain(self, verb: str, /, **given: Any) -> Any:
        if verb in DECIDING and self.elsewhere is not None:
            away = await self.elsewhere.away(given["name"])
            if away is not None:
                return await self.elsewhere.decide_of(away, verb, given)
        if verb == "show" and given.get("head") is None and (told := await self._told()) is not None:
            return told.shown(given["name"])

        def act() -> Any:
            with self._opened() as control:
                return getattr(control, verb)(**given)

        return await (self._lanes.looking if verb in LOOKING else self._lanes.changing).do(act)

    async def _told(self) -> Told | None:
        """What other devices say of their sessions, at one that keeps none and may know of them."""
        return None if self.elsewhere is None else await self.elsewhere.told()

    # Streams

    async def _transcript(self, name: str, head: str | None = None) -> AsyncIterator[bytes]:
        if head is None and self.elsewhere is not None and (told := await self._told()) is not None:
            from hhd.node.relay import listing as relay_listing

            async for part in relay_listing.transcript(self.elsewhere, told.shown(name).session):
                yield part
            return
        shown = await self._look(lambda control: control.show(name, head=head))
        start = 0
        while shown.head is not None:
            at, session = start, shown.session
            parts = await self._look(lambda control: some_of(control.transcript(session, head=shown.head, start=at)))  # noqa: B023
            for part in parts:
                yield part
                start += len(part)
            if start == at:
                return

    async def _log(self, name: str, since: str | None = None, newest: int | None = None) -> AsyncIterator[Logged]:
        for one in await self._look(lambda control: control.log(name, since=since, newest=newest)):
            yield one

    async def _export(self, **given: Any) -> AsyncIterator[Exporting | bytes]:
        """First what it is, then the file in parts."""
        if self._exports >= EXPORTS_MAX:
            raise RefusedError(f"{EXPORTS_MAX} exports are under way; nothing was written. Try again when one is done.")
        self._exports += 1
        try:
            made, parts = await self._look(lambda control: _exported(control.export(**given)))
            yield made
            for part in parts:
                yield part
        finally:
            self._exports -= 1

    async def _look(self, act: Callable[[ControlService], T]) -> T:
        def opened() -> T:
            with self._opened() as control:
                return act(control)

        return await self._lanes.looking.do(opened)


def _exported(made: Exported) -> tuple[Exporting, list[bytes]]:
    parts = list(cut(bytes(part) for part in made.parts))
    about = Exporting(
        session=made.session,
        title=made.title,
        checkpoint=made.checkpoint,
        to=made.to,
        sealed=made.sealed,
        size=sum(map(len, parts)),
    )
    return about, parts


def cut(parts: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the same bytes in parts that fit an event."""
    for part in parts:
        for begin in range(0, len(part), CONTROL_PART_BYTES_MAX):
            yield part[begin : begin + CONTROL_PART_BYTES_MAX]


def some_of(parts: Iterator[bytes], bytes_wanted: int = PULL_BYTES) -> list[bytes]:
    """Return the first of `parts`, cut to fit events, until they are `bytes_wanted`."""
    found, size = [], 0
    for part in cut(parts):
        found.append(part)
        size += len(part)
        if size >= bytes_wanted:
            break
    return found
