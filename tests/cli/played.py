"""A daemon for tests that runs nothing: it tells what a test has it tell, and notes what it is told."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path

from hhd.base.errors import RefusedError
from hhd.control import place
from hhd.control.server import Server
from hhd.node.answers.driven import Begun, Counted, Heard, Rested
from hhd.node.service import Table, Verb
from hhd_protocol import live
from hhd_protocol.codec import Value

SESSION = "5e" * 32


def question(id: str, *pages: str, always: str = "") -> live.Question:
    shown = sha256("".join(pages).encode()).digest()
    return live.Question(id=id, pages=pages, shown=shown, always=always)


def state(name: str, sentence: str = "", *, status: int = 0, ways: tuple[str, ...] = ()) -> live.State:
    return live.State(name=name, sentence=sentence, ways=ways, effect="", status=status)


class Played:
    """Serves one session at the socket that the data folder `data` names, while it lasts."""

    def __init__(self, data: Path) -> None:
        self.transcript = b""
        self.now: list[live.Event] = []
        """What who attaches is told after the transcript."""
        self.heard: list[tuple[object, ...]] = []
        self.pauses, self.removed, self.fresh = True, False, True
        self.takes = asyncio.Event()
        """An answer that is given is taken; `begun_to_take` is set before."""
        self.begun_to_take = threading.Event()
        self.takes.set()
        self.at: str | None = None
        """The device at which a session goes on that is elsewhere."""
        self.begun: dict[str, object] = {}
        self._data, self._queues = data, list[asyncio.Queue[live.Event | None]]()
        self._ready, self._changed = threading.Event(), threading.Condition()

    def __enter__(self) -> Played:
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()
        assert self._ready.wait(240)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(60)
        assert not self._thread.is_alive()

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self.verbs = {
            "begin": Verb(self.begin, changes=True),
            "go_on": Verb(self.go_on, changes=True),
            "attach": Verb(self.attach, changes=False),
            "say": Verb(self.say, changes=True),
            "answer": Verb(self.answer, changes=True),
            "pause": Verb(self.pause, changes=True),
            "keys": Verb(self.keys, changes=False),
        }
        self.table = Table(self.verbs)
        self.verbs = self.table.verbs
        path = place.socket_path(self._data)
        listener = place.listen(path, backlog=16)
        (self._data / "daemon.lock").write_bytes(str(path).encode())
        self._ready.set()
        try:
            await Server(self.table, hhd="1.0").serve(listener, self._stop)
        finally:
            path.unlink()

    # What a test does

    def tell(self, *events: live.Event | None) -> None:
        """Tell all who are attached; transcript is noted. None: that was all."""
        done = threading.Event()
        self._loop.call_soon_threadsafe(lambda: (self._tell(events), done.set()))
        assert done.wait(240)

    def take(self) -> None:
        """From now on answers are taken."""
        self._loop.call_soon_threadsafe(self.takes.set)

    def says(self, *lines: str) -> None:
        """Let the transcript grow."""
        piece = "".join(f"{line}\n" for line in lines).encode()
        self.tell(live.Emitted(position=len(self.transcript), piece=piece))

    def until(self, *heard: object) -> None:
        """Wait until somebody said this."""
        with self._changed:
            assert self._changed.wait_for(lambda: heard in self.heard, 60), self.heard

    def attached(self, count: int = 1) -> None:
        """Wait until so many are attached."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self._queues) == count, 60)

    def _tell(self, events: tuple[live.Event | None, ...]) -> None:
        for event in events:
            if isinstance(event, live.Emitted):
                self.transcript += event.piece
            for queue in self._queues:
                queue.put_nowait(event)

    def _note(self, *heard: object) -> None:
        with self._changed:
            self.heard.append(heard)
            self._changed.notify_all()

    # What it is asked

    async def begin(
        self,
        prompt: str,
        folder: Path,
        once: bool = False,
        model: str | None = None,
        environment: tuple[tuple[str, str], ...] | None = None,
        key: str | None = None,
    ) -> Begun:
        self.begun = {"prompt": prompt, "folder": folder, "model": model, "environment": dict(environment or ())}
        return Begun(session=SESSION, fresh=True)

    async def go_on(
        self,
        name: str,
        folder: Path | None = None,
        head: str | None = None,
        model: str | None = None,
        settle: tuple[str, str] | None = None,
        environment: tuple[tuple[str, str], ...] | None = None,
        key: str | None = None,
    ) -> Begun:
        self._note("go_on", name, head, settle)
        return Begun(session=SESSION, fresh=self.fresh, at=self.at)

    async def attach(self, name: str, position: int | None = 0, by: str = "") -> AsyncIterator[Value]:
        if not SESSION.startswith(name) or self.removed:
            raise RefusedError(f"There is no session '{name}' here.")
        queue: asyncio.Queue[live.Event | None] = asyncio.Queue()
        end = len(self.transcript)
        begin = end if position is None else position
        queue.put_nowait(
            live.Attached(session=SESSION, title="t", program="agent", folder="/f", position=end, by=by or "1")
        )
        for at in range(begin, end, 50):
            queue.put_nowait(live.Emitted(position=at, piece=self.transcript[at : min(end, at + 50)]))
        for event in self.now:
            queue.put_nowait(event)
        with self._changed:
            self._queues.append(queue)
            self._changed.notify_all()
        try:
            while (event := await queue.get()) is not None:
                yield live.encoded(event)
        finally:
            with self._changed:
                self._queues.remove(queue)
                self._changed.notify_all()

    async def say(self, name: str, text: str, by: str = "") -> Heard:
        self._note("say", text)
        return Heard(session=SESSION, how="steering")

    async def answer(self, name: str, id: str, shown: bytes, choice: str, message: str = "", by: str = "") -> Counted:
        self.begun_to_take.set()
        await self.takes.wait()
        self._note("answer", id, choice, message, shown)
        return Counted(session=SESSION, counted=True, by=by)

    async def pause(self, name: str) -> Rested:
        self._note("pause")
        if not self.pauses:
            await asyncio.Event().wait()
        return Rested(session=SESSION, state="paused", sentence="Paused.")

    async def keys(self, name: str, line: str, by: str) -> bool:
        self._note("keys", line)
        return True
