"""What the daemon is made of: parts that live as long as it does, each with verbs that can be asked of it by name.

    async def greet(self, name: str, *, loud: bool = False) -> Greeting: ...      one answer
    async def count(self, to: int) -> AsyncIterator[Counted]: ...                 a stream

Such a function is a verb as it stands: its annotations say which arguments a message must have and of which types
(`hhd_protocol.mapping`, and `Path` for an absolute path), those with a default may be left out, and what it returns or
yields is a plain record. Who asks reads it with the same type (`hhd.node.asking`).
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

from hhd.base.errors import RefusedError
from hhd_protocol import mapping
from hhd_protocol.codec import Value
from hhd_protocol.errors import FormatError


class Verb(NamedTuple):
    """What can be asked: `act` with arguments by name, a coroutine function or an async generator function.

    `changes`: it may change something. `like`: the function whose annotations name the arguments; None: `act` itself.
    """

    act: Callable[..., Coroutine[Any, Any, Any] | AsyncIterator[Any]]
    changes: bool
    like: Callable[..., Any] | None = None


class Part(Protocol):
    """A part of the daemon."""

    def verbs(self) -> Mapping[str, Verb]:
        """What can be asked of it; asked once, before it runs."""

    async def run(self) -> None:
        """Live until cancelled. What it raises ends the daemon, and is the reason that is said."""

    async def stop(self) -> None:
        """The daemon is to end: let what is under way come to rest, durably, within `STOP_SECONDS`.

        It is still served meanwhile, so that who is attached hears of it; `run` is cancelled afterwards.
        """


STOP_SECONDS = 12.0
"""For all parts to come to rest, side by side; after it the daemon ends all the same. Less than `down` waits."""


class Table:
    """The verbs of all parts: what the control socket serves (`hhd.control.server.Service`)."""

    def __init__(self, *tables: Mapping[str, Verb], lacking: str = "") -> None:
        """`lacking`: why this daemon is without parts, and so verbs, that it should have; "": it has all."""
        self._lacking = lacking
        self.verbs: dict[str, Verb] = {}
        for table in tables:
            assert not self.verbs.keys() & table.keys(), f"two parts have a verb {self.verbs.keys() & table.keys()}"
            self.verbs.update(table)

    def do(self, verb: str, arguments: dict[Value, Value]) -> Coroutine[Any, Any, Value] | AsyncIterator[Value]:
        """Return what comes of `verb`; raises RefusedError where there is no such verb, or it has other arguments."""
        known = self.verbs.get(verb)
        if known is None and self._lacking:
            then = " Then: hhd restart" if self._lacking.endswith(".") else ", then: hhd restart"
            raise RefusedError(f"{self._lacking}{then}")
        if known is None:
            raise RefusedError(
                f"The daemon that runs does not know '{verb}', so it is older than this hhd; nothing was changed. "
                "hhd down, and then hhd up, starts a new one."
            )
        doing = known.act(**_given(*_hints(known.like or known.act), arguments))
        return _answer(doing) if isinstance(doing, Coroutine) else _events(doing)


async def _answer(doing: Coroutine[Any, Any, Any]) -> Value:
    return _value(await doing)


async def _events(doing: AsyncIterator[Any]) -> AsyncIterator[Value]:
    try:
        async for one in doing:
            yield _value(one)
    finally:
        close = getattr(doing, "aclose", None)
        if close is not None:
            await close()


def _value(plain: object) -> Value:
    """A map, or a list of maps, is a value already: of a verb whose answer has an encoding of its own."""
    ready = type(plain) is dict or (type(plain) is list and all(type(one) is dict for one in plain))
    return cast(Value, plain) if ready else mapping.to_value(plain)


def _given(wanted: dict[str, Any], optional: frozenset[str], arguments: dict[Value, Value]) -> dict[str, Any]:
    paths = {name for name, kind in wanted.items() if Path in (kind, *typing.get_args(kind))}
    plain = {
        name: (kind if name not in paths else str if kind is Path else str | None) for name, kind in wanted.items()
    }
    try:
        found = mapping.arguments(plain, optional, arguments)
        for name in paths:
            if (path := found.get(name)) is not None and (not path.startswith("/") or "\0" in path):
                raise FormatError(f"the path {name} is not absolute, or no path")
    except FormatError as error:
        raise RefusedError(
            f"The daemon that runs does not understand what it was asked ({error}), so it is not of this hhd's age; "
            "nothing was changed. hhd down, and then hhd up, starts a new one."
        ) from error
    return {name: Path(one) if name in paths and one is not None else one for name, one in found.items()}


@functools.cache
def _hints(act: Callable[..., Any]) -> tuple[dict[str, Any], frozenset[str]]:
    """The arguments of a verb that come over the socket, and those that may be left out."""
    hints = typing.get_type_hints(act)
    parameters = [one for one in inspect.signature(act).parameters.values() if one.name != "self"]
    optional = frozenset(one.name for one in parameters if one.default is not one.empty)
    return {one.name: hints[one.name] for one in parameters}, optional
