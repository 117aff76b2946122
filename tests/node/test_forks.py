"""Workers are told apart, and their zygote stays, in whatever order forks, ends and cancelled wishes come."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
from collections.abc import Awaitable, Callable, Iterator

import pytest

from hhd.node import forks, pair
from hhd.node.forks import Forks


class Zygote:
    """The other end of what a zygote is asked over: forks are processes that do nothing, reported when they are to."""

    def __init__(self) -> None:
        self.ours, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._theirs.setblocking(False)
        self.processes: list[subprocess.Popen[bytes]] = []
        self.ends: list[int] = []
        """The workers' ends of their pairs."""

    def begin(self, of: Forks) -> socket.socket:
        """As `Forks._begin`."""
        self.ours.setblocking(False)
        of._asked = self.ours
        asyncio.get_running_loop().add_reader(self.ours, of._heard)
        return self.ours

    async def asked(self) -> int:
        """Take one wish; the process that it shall be."""
        while True:
            with contextlib.suppress(BlockingIOError):
                wish, descriptors, _, _ = socket.recv_fds(self._theirs, 1, 1)
                break
            await asyncio.sleep(0)
        assert wish == pair.PLAIN
        self.ends += descriptors
        self.processes.append(subprocess.Popen(["sleep", "3600"]))
        return self.processes[-1].pid

    def says(self, kind: bytes, process: int) -> None:
        self._theirs.send(pair.REPORT.pack(kind, process, 0))

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
        for end in self.ends:
            socket.close(end)
        self._theirs.close()


@pytest.fixture
def zygote() -> Iterator[Zygote]:
    made = Zygote()
    yield made
    made.close()


def run(zygote: Zygote, go: Callable[[Forks], Awaitable[None]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Forks, "_begin", lambda self: zygote.begin(self))

    async def all_of_it() -> None:
        one = Forks()
        try:
            await go(one)
        finally:
            one.close()

    asyncio.run(all_of_it())


def test_a_wish_that_was_cancelled_is_not_answered_to_the_next_one(
    zygote: Zygote, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else each worker after it goes under the number of another, and is killed for it."""

    async def go(one: Forks) -> None:
        first = asyncio.ensure_future(one.fork(with_model=False))
        late = await zygote.asked()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        second = asyncio.ensure_future(one.fork(with_model=False))
        process = await zygote.asked()
        zygote.says(pair.FORKED, late)
        zygote.says(pair.FORKED, process)
        assert (await second).process == process

    run(zygote, go, monkeypatch)


def test_the_zygote_is_not_let_go_of_while_a_worker_is_there(zygote: Zygote, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that ends while another is forked: let go of then, the zygote would end the new one after a minute."""
    monkeypatch.setattr(forks, "IDLE_SECONDS", 3600.0)

    async def forked(one: Forks, *meanwhile: int) -> int:
        wish = asyncio.ensure_future(one.fork(with_model=False))
        process = await zygote.asked()
        for ended in meanwhile:
            zygote.says(pair.ENDED, ended)
        zygote.says(pair.FORKED, process)
        assert (await wish).process == process
        return process

    async def go(one: Forks) -> None:
        second = await forked(one, await forked(one))
        assert one._idle is None
        zygote.says(pair.ENDED, second)
        while one._idle is None:
            await asyncio.sleep(0)
        await forked(one)
        assert one._idle is None

    run(zygote, go, monkeypatch)
