"""Parts of the daemon: their verbs are asked by name, and they end with it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hhd.base.errors import RefusedError, UsageError
from hhd.base.paths import data_folder
from hhd.control.address import LOCK_FILE
from hhd.control.client import connect
from hhd.node import daemon
from hhd.node.asking import Asking
from hhd.node.lanes import Lanes
from hhd.node.service import Table, Verb


@dataclass(frozen=True, kw_only=True)
class Greeting:
    text: str
    times: tuple[int, ...]


class Greeter:
    """A part: greets, counts, and breaks when it is told to."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self._broken = asyncio.Event()

    def verbs(self) -> dict[str, Verb]:
        return {
            "greet": Verb(self.greet, changes=False),
            "count": Verb(self.count, changes=False),
            "break": Verb(self.breaks, changes=True),
        }

    async def greet(
        self, name: str, where: Path, loud: bool = False, pairs: tuple[tuple[str, int], ...] = ()
    ) -> Greeting:
        if name == "nobody":
            raise UsageError("There is nobody.")
        text = f"{name} in {where.name}"
        return Greeting(text=text.upper() if loud else text, times=tuple(number for _, number in pairs))

    async def count(self, to: int) -> AsyncIterator[Greeting]:
        for number in range(to):
            yield Greeting(text="count", times=(number,))

    async def breaks(self) -> bool:
        self._broken.set()
        return True

    async def run(self) -> None:
        self.told.append("runs")
        async with asyncio.TaskGroup() as tasks:  # As parts do that have several things to look after.
            tasks.create_task(self._break_once_told())

    async def _break_once_told(self) -> None:
        await self._broken.wait()
        raise RefusedError("The greeter broke.")

    async def stop(self) -> None:
        self.told.append("stops")


@contextlib.contextmanager
def lived(part: Greeter) -> Iterator[tuple[Asking, list[BaseException]]]:
    """A daemon of `part` in a thread; with what ended it."""
    up, raised = threading.Event(), list[BaseException]()

    def live() -> None:
        try:
            daemon.run(parts=[part], ready=up.set, lanes=Lanes(), says=lambda _: ("All is well.",))
        except BaseException as error:  # noqa: BLE001  It is what the test looks at.
            raised.append(error)

    thread = threading.Thread(target=live, daemon=True)
    thread.start()
    assert up.wait(240)
    connection = connect(Path(os.fsdecode((data_folder() / LOCK_FILE).read_bytes())), hhd="1")
    assert connection is not None
    with connection:
        yield Asking(connection), raised
        if thread.is_alive():
            with contextlib.suppress(Exception):
                connection.ask("down", {})
    thread.join(60)
    assert not thread.is_alive()


@pytest.fixture(autouse=True)
def _no_signals(monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon is in a thread here, where no signals can be caught."""
    monkeypatch.setattr(asyncio.unix_events._UnixSelectorEventLoop, "add_signal_handler", lambda *_: None)  # type: ignore[attr-defined]
    assert signal.getsignal(signal.SIGTERM) is not None


def test_a_function_of_a_part_is_a_verb_with_the_arguments_of_its_annotations(tmp_path: Path) -> None:
    part = Greeter()
    with lived(part) as (asking, raised):
        found = asking.ask(
            "greet", Greeting, changes=False, name="alice", where=tmp_path / "x", pairs=(("a", 1), ("b", 2))
        )
        assert found == Greeting(text="alice in x", times=(1, 2))
        assert asking.ask("greet", Greeting, name="bob", where=tmp_path / "y", loud=True).text == "BOB IN Y"
        assert [one.times for one in asking.stream("count", Greeting, to=3)] == [(0,), (1,), (2,)]
        with pytest.raises(UsageError, match="There is nobody"):
            asking.ask("greet", Greeting, name="nobody", where=tmp_path)
        for odd in ({"name": "x"}, {"name": 1, "where": "/"}, {"name": "x", "where": "/", "more": 1}):
            with pytest.raises(RefusedError, match="does not understand"):
                asking.ask("greet", Greeting, **odd)  # type: ignore[arg-type]
        with pytest.raises(RefusedError, match="older than this hhd"):
            asking.ask("wave", Greeting)
        status: Any = asking.connection.ask("status", {})
        assert status["says"] == ["All is well."]
    assert part.told == ["runs", "stops"] and not raised


def test_a_part_that_breaks_ends_the_daemon_with_its_reason(tmp_path: Path) -> None:
    part = Greeter()
    with lived(part) as (asking, raised):
        assert asking.ask("break", bool)
        assert asking.connection.ended(60)
    assert [str(one) for one in raised] == ["The greeter broke."] and isinstance(raised[0], RefusedError)


def test_a_verb_of_a_part_that_the_daemon_had_to_start_without_is_refused_with_the_reason() -> None:
    with pytest.raises(RefusedError, match=r"^The key is gone\. Then: hhd restart$"):
        Table(Greeter().verbs(), lacking="The key is gone.").do("wave", {})
    with pytest.raises(RefusedError, match="older than this hhd"):
        Table(Greeter().verbs()).do("wave", {})


def test_two_parts_cannot_have_one_verb() -> None:
    with pytest.raises(AssertionError):
        Table(Greeter().verbs(), Greeter().verbs())
