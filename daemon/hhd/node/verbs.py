"""The verbs of `ControlService` as the control socket carries them: by name, with arguments and results by field.

A verb works with the store, which blocks, so it runs in a thread of its kind: lists, looking, and changing each have
one, and none waits for another kind. Each time the store is opened anew, as a command would: what holds it open all
day would stop its repair, and remember what others changed. A stream holds nothing between two of its parts, so one
that nobody reads costs nothing but its place.
"""

from __future__ import annotations

import asyncio
import typing
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeVar

from hhd.base.errors import RefusedError
from hhd.node.answers.made import Exported, Exporting
from hhd.node.answers.status import Status
from hhd.node.control import ControlService
from hhd.node.listed import Overview
from hhd.node.remote import CHANGING, LOOKING, STREAMS, Remote
from hhd_protocol import mapping
from hhd_protocol.codec import Value
from hhd_protocol.errors import FormatError
from hhd_protocol.limits import CONTROL_PART_BYTES_MAX

PULL_BYTES = 4 * 1024 * 1024
"""Of a transcript that is read from the store at a time."""
EXPORTS_MAX = 4
"""Exports under way: each lies in memory whole."""

T = TypeVar("T")
Open = Callable[[], AbstractContextManager[ControlService]]


class Lane:
    """A thread that does one thing at a time."""

    def __init__(self, name: str) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"hhd {name}")

    async def do(self, act: Callable[[], T]) -> T:
        """Return what `act` does, once its turn came."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, act)

    def close(self) -> None:
        """Wait for what is being done, and do nothing more."""
        self._thread.shutdown(wait=True, cancel_futures=True)


class Verbs:
    """Does what is asked: `opened` gives the verbs on sessions, `overview` the list, `status` and `down` the daemon."""

    def __init__(
        self,
        *,
        opened: Open,
        overview: Callable[[str, bool], Overview],
        status: Callable[[], Status],
        down: Callable[[], None],
    ) -> None:
        self._opened, self._overview, self._status, self._down = opened, overview, status, down
        self._lists, self._looking, self._changing = Lane("lists"), Lane("looking"), Lane("changing")
        self._exports = 0

    def close(self) -> None:
        """Wait for what is being done."""
        for lane in (self._lists, self._looking, self._changing):
            lane.close()

    def do(self, verb: str, arguments: dict[Value, Value]) -> Coroutine[Any, Any, Value] | AsyncIterator[Value]:
        """Return what comes of `verb`; raises RefusedError where there is no such verb, or it has other arguments."""
        if verb in ("status", "down"):
            _given({}, frozenset(), arguments)
            return self._of_status() if verb == "status" else self._of_down()
        if verb == "sessions":
            given = _given({"query": str, "with_archived": bool}, frozenset(), arguments)
            return self._of_sessions(**given)
        if verb not in (*LOOKING, *CHANGING, *STREAMS):
            raise RefusedError(
                f"The daemon that runs does not know '{verb}', so it is older than this hhd; nothing was changed. "
                "hhd down, and then hhd up, starts a new one."
            )
        given = _given(*_hints(verb), arguments)
        if verb in STREAMS:
            stream: AsyncIterator[Value] = getattr(self, f"_{verb}")(**given)
            return stream
        return self._plain(verb, given)

    async def _of_status(self) -> Value:
        return mapping.to_value(self._status())

    async def _of_down(self) -> Value:
        self._down()
        return True

    async def _of_sessions(self, query: str, with_archived: bool) -> Value:
        return await self._lists.do(lambda: self._overview(query, with_archived).value())

    async def _plain(self, verb: str, given: dict[str, Any]) -> Value:
        def act() -> Value:
            with self._opened() as control:
                return mapping.to_value(getattr(control, verb)(**given))

        return await (self._looking if verb in LOOKING else self._changing).do(act)

    # Streams

    async def _transcript(self, name: str, head: str | None = None) -> AsyncIterator[Value]:
        shown = await self._look(lambda control: control.show(name, head=head))
        start = 0
        while shown.head is not None:
            at, session = start, shown.session
            parts = await self._look(lambda control: _some(control.transcript(session, head=shown.head, start=at)))  # noqa: B023
            for part in parts:
                yield part
                start += len(part)
            if start == at:
                return

    async def _log(self, name: str, since: str | None = None, newest: int | None = None) -> AsyncIterator[Value]:
        for one in await self._look(lambda control: control.log(name, since=since, newest=newest)):
            yield mapping.to_value(one)

    async def _export(self, **given: Any) -> AsyncIterator[Value]:
        """First what it is, then the file in parts."""
        if self._exports >= EXPORTS_MAX:
            raise RefusedError(f"{EXPORTS_MAX} exports are under way; nothing was written. Try again when one is done.")
        self._exports += 1
        try:
            made, parts = await self._look(lambda control: _exported(control.export(**given)))
            yield mapping.to_value(made)
            for part in parts:
                yield part
        finally:
            self._exports -= 1

    async def _look(self, act: Callable[[ControlService], T]) -> T:
        def opened() -> T:
            with self._opened() as control:
                return act(control)

        return await self._looking.do(opened)


def _exported(made: Exported) -> tuple[Exporting, list[bytes]]:
    about = Exporting(
        session=made.session, title=made.title, checkpoint=made.checkpoint, to=made.to, sealed=made.sealed
    )
    return about, list(cut(bytes(part) for part in made.parts))


def cut(parts: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the same bytes in parts that fit an event."""
    for part in parts:
        for begin in range(0, len(part), CONTROL_PART_BYTES_MAX):
            yield part[begin : begin + CONTROL_PART_BYTES_MAX]


def _some(parts: Iterator[bytes]) -> list[bytes]:
    found, size = [], 0
    for part in cut(parts):
        found.append(part)
        size += len(part)
        if size >= PULL_BYTES:
            break
    return found


def _given(wanted: dict[str, Any], optional: frozenset[str], arguments: dict[Value, Value]) -> dict[str, Any]:
    paths = {name for name, kind in wanted.items() if Path in (kind, *typing.get_args(kind))}
    plain = {
        name: (kind if name not in paths else str if kind is Path else str | None) for name, kind in wanted.items()
    }
    try:
        found = mapping.arguments(plain, optional, arguments)
    except FormatError as error:
        raise RefusedError(
            f"The daemon that runs does not understand what it was asked ({error}), so it is not of this hhd's age; "
            "nothing was changed. hhd down, and then hhd up, starts a new one."
        ) from error
    return {name: Path(one) if name in paths and one is not None else one for name, one in found.items()}


def _hints(verb: str) -> tuple[dict[str, Any], frozenset[str]]:
    """The arguments of a verb that come over the socket, and those that may be left out."""
    import inspect

    method = getattr(Remote, verb)
    hints = typing.get_type_hints(method)
    parameters = [one for one in inspect.signature(method).parameters.values() if one.name != "self"]
    optional = frozenset(one.name for one in parameters if one.default is not one.empty)
    return {one.name: hints[one.name] for one in parameters}, optional
