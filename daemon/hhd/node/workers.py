"""Sessions that run in the daemon, each in a process of its own: started, told about, asked for, paused, ended.

    asked to run -> noted on disk that it should -> a worker is forked -> it runs -> it rests for a reason -> not noted

So whatever ends without a word, what should run is known. A worker that ended without a word is not started again by
itself: its session says so, and waits. A daemon that starts goes on with what was noted.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TypeVar

from hhd.base import config, log
from hhd.base.errors import Exit, RefusedError, UsageError, UserError
from hhd.base.text import visible
from hhd.node import handed, listing, pair, should_run
from hhd.node.answers.driven import Begun, Counted, Heard, Rested
from hhd.node.control import ControlService
from hhd.node.forks import Forks, Worker
from hhd.node.going import WORDS_WAITING_MAX, Going, Word
from hhd.node.lanes import Lanes
from hhd.node.listed import Listed
from hhd.node.listed import State as ListedState
from hhd.node.live import Seat, named
from hhd.node.naming import ID_SHOWN
from hhd.node.service import Verb
from hhd.node.should_run import Note
from hhd.node.standing_now import standing_now
from hhd.node.turns import Turns
from hhd.node.watching import LOOK_SECONDS, Watching
from hhd_protocol import live
from hhd_protocol.ids import SessionId, StatementId
from hhd_protocol.limits import LIVE_LINE_BYTES_MAX, LIVE_TEXT_BYTES_MAX

T = TypeVar("T")
Open = Callable[[], AbstractContextManager[ControlService]]

LINGER_SECONDS = 20.0
"""A worker waits so long for a person: one who reads a question and answers at once finds it there."""

PAUSE_SECONDS = 10.0
"""For a worker to pause: an effect that is cancelled ends in a second or two. After it, it is killed."""

HEARD_SECONDS = 10.0
"""For words to be in a session that waited for them."""

PATIENCE_SECONDS, PATIENCE_AFTER_START_SECONDS = 3.0, 20.0
"""For another process to let go of a session; after a daemon died its workers may still be pausing."""

OPENING_AT_ONCE = 4
"""Workers that open their session at a time: each reads and checks what is signed in it."""

STARTS_MAX = 3
"""By daemons that start, of a session that has not made a step since: then it waits, and says why."""


class Workers:
    """A part of the daemon (`hhd.node.service.Part`). All its methods are for the loop's thread."""

    def __init__(
        self,
        *,
        opened: Open,
        lanes: Lanes,
        linger_seconds: float | None = None,
        watching: Watching | None = None,
    ) -> None:
        self._opened, self._lanes = opened, lanes
        self._linger_seconds = LINGER_SECONDS if linger_seconds is None else linger_seconds
        self._goings: dict[SessionId, Going] = {}
        self._forks = Forks()
        self._turns = {False: Turns(), True: Turns(at_once=1)}
        """To compute, and to write to the store."""
        self._watching = watching or Watching()
        self._opening = asyncio.Semaphore(OPENING_AT_ONCE)
        self._some = asyncio.Event()
        self._tasks: asyncio.TaskGroup | None = None
        self._stopping = False
        self._noted = asyncio.Event()
        """What should run is known."""
        self.trouble = ""
        """What the person should know of this part, as a sentence."""
        self.on_step: list[Callable[[SessionId], None]] = []
        """Called after each durable step of a session."""
        self.on_person: list[Callable[[SessionId], None]] = []
        """Called whenever a person is at a session here: attaches to it, prompts it, answers it, has it go on."""
        self.environment_for: Callable[[SessionId], Mapping[str, str] | None] = lambda _: None
        """The environment of commands where no terminal handed one over; called in a thread. None: the daemon's."""

    # As a part

    def verbs(self) -> dict[str, Verb]:
        """As `hhd.node.runs` asks them."""
        return {
            "begin": Verb(self.begin, changes=True),
            "go_on": Verb(self.go_on, changes=True),
            "attach": Verb(self.attach, changes=False),
            "say": Verb(self.say, changes=True),
            "answer": Verb(self.answer, changes=True),
            "pause": Verb(self.pause_named, changes=True),
            "keys": Verb(self.keys, changes=False),
        }

    async def run(self) -> None:
        """Go on with what should run, and look after the workers."""
        try:
            async with asyncio.TaskGroup() as self._tasks:
                self._tasks.create_task(self._go_on_with_noted())
                while True:
                    await self._some.wait()
                    self._look()
                    await asyncio.sleep(LOOK_SECONDS)
        finally:
            self._forks.close()

    async def stop(self) -> None:
        """Pause all workers; what runs now goes on when a daemon starts again."""
        self._stopping = True
        running = [going for going in self._goings.values() if going.worker is not None]
        for going in running:
            assert going.worker is not None
            going.worker.say(pair.Pause())
        await asyncio.gather(*(self._rested(going) for going in running))

    async def _rested(self, going: Going) -> None:
        """Wait until a session that was told to pause rests; one that does not is ended."""
        try:
            async with asyncio.timeout(PAUSE_SECONDS):
                await going.rested.wait()
        except TimeoutError:
            self._end(going, f"Its process did not pause within {PAUSE_SECONDS:.0f} seconds, and was ended.")
            await going.rested.wait()

    def _look(self) -> None:
        some = False
        for going in list(self._goings.values()):
            if going.worker is not None:
                some = True
                if (cause := self._watching.look(going.worker)) is not None:
                    self._end(going, cause)
            elif going.idle:
                del self._goings[going.session]
        if not some:
            self._some.clear()

    def _end(self, going: Going, cause: str) -> None:
        if going.worker is not None:
            going.cause = going.cause or cause
            going.worker.kill()

    async def _go_on_with_noted(self) -> None:
        assert self._tasks is not None
        try:
            for one in await self._store(lambda control: should_run.noted(control.store)):
                self._going(one.session).tell(_state("running", "It goes on, as before the daemon ended."))
                self._tasks.create_task(self._go_on_with(one))
        except UserError as error:  # Damage of the store is no reason not to be asked about it.
            self.trouble = f"What ran before this daemon began is not known: {error}"
        finally:
            self._noted.set()

    async def _go_on_with(self, one: Note) -> None:
        going = self._going(one.session)
        if one.starts >= STARTS_MAX:
            sentence = f"It was begun {STARTS_MAX} times without making a step, so it is not begun again by itself."
            await self._store(lambda control: should_run.forget(control.store, one.session))
            going.tell(_state("ended", sentence, ("hhd resume goes on with it",), status=Exit.UNEXPECTED))
            return
        async with going.turn:
            if going.worker is None and not self._stopping:
                going.folder, going.chosen_model, going.starts = one.folder, one.model, one.starts + 1
                with contextlib.suppress(UserError, OSError):  # It is told to who attaches.
                    await self._start(going, None, PATIENCE_AFTER_START_SECONDS)

    # For other parts

    async def start(
        self,
        session: SessionId,
        folder: Path | None = None,
        model: str | None = None,
        environment: Mapping[str, str] | None = None,
        *,
        key: str | None = None,
        settle: tuple[str, str] | None = None,
    ) -> bool:
        """Run a session; False where it runs already. Returns once it is held and runs.

        `folder`, `model`: None as in `should_run.Note`. Raises UserError where it cannot be driven.
        """
        going = self._going(session)
        try:
            async with going.turn:
                if going.worker is not None:
                    return False
                going.folder, going.chosen_model, going.starts = folder, model, 0
                if environment is not None or key is not None:
                    going.hand = handed.hand(environment, key)
                await self._start(going, settle, PATIENCE_SECONDS)
                return True
        except (UserError, OSError):
            await going.rested.wait()  # Before it is said that it does not run, it is written that it should not.
            raise

    async def pause(self, session: SessionId, *, soft: bool = False) -> live.State | None:
        """Pause a session, durable when this returns; how it is then, None where it did not run here.

        `soft`: an effect that runs is waited for, however long it takes; else it is cancelled.
        """
        going = self._goings.get(session)
        if going is None:
            return None
        async with going.turn:  # One that is just being started is started first.
            worker = going.worker
            if worker is not None:
                going.pausing = True
                worker.say(pair.Pause(soft=soft))
        if worker is None:
            return None
        if soft:
            await going.rested.wait()
        else:
            await self._rested(going)
        return going.state

    def chosen(self, session: SessionId) -> tuple[Path | None, str | None]:
        """Return the folder and the model that a session runs with, as `start` was given them."""
        going = self._goings.get(session)
        return (None, None) if going is None else (going.folder, going.chosen_model)

    def tell(self, session: SessionId, state: live.State) -> None:
        """Tell who is attached to a session that does not run here how it is: where it runs now, say."""
        going = self._goings.get(session)
        if going is not None and going.worker is None:
            going.settle("", "")
            going.tell(state)

    def running(self) -> dict[SessionId, live.State]:
        """Return the sessions that have a process, and how they are."""
        return {one.session: one.state for one in self._goings.values() if one.worker is not None and one.state}

    def looked_again(self, session: SessionId) -> None:
        """Statements of a session came from elsewhere: one that this device may not advance any more stops soon."""
        going = self._goings.get(session)
        if going is not None and going.worker is not None and self._tasks is not None:
            self._tasks.create_task(self._fence(going, going.worker))

    async def _fence(self, going: Going, worker: Worker) -> None:
        def fenced(control: ControlService) -> bool:
            from hhd.node import sessions

            return sessions.view(control.store, control.me, going.session).owner != control.me.id

        if await self._look_in(fenced) and going.worker is worker:
            worker.say(pair.Pause())  # What it has in hand becomes its closing checkpoint.

    # Verbs

    async def begin(
        self,
        prompt: str,
        folder: Path,
        once: bool = False,
        model: str | None = None,
        environment: tuple[tuple[str, str], ...] | None = None,
        key: str | None = None,
    ) -> Begun:
        """As `hhd.node.runs.Runs.begin`."""
        self._insist_on_going()
        around = None if environment is None else dict(environment)

        def create(control: ControlService) -> SessionId:
            from hhd.node.workbench import Workbench

            return Workbench(store=control.store, me=control.me).create(prompt, folder=folder, once=once)

        session = await self._store(create)
        await self.start(session, None, _absolute(model, folder), around, key=key)
        return Begun(session=session.hex(), fresh=True)

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
        """As `hhd.node.runs.Runs.go_on`."""
        self._insist_on_going()
        session = self._at(await self._session(name))
        around = None if environment is None else dict(environment)
        if head is not None:
            chosen = head
            if (going := self._goings.get(session)) is not None and going.worker is not None:
                raise RefusedError("The session runs; pause it first, to go on from another head.")

            def turn(control: ControlService) -> None:
                from hhd.node.workbench import Workbench

                Workbench(store=control.store, me=control.me).turn_to(session, chosen)

            await self._store(turn)
        fresh = await self.start(session, folder, _absolute(model, folder), around, key=key, settle=settle)
        return Begun(session=session.hex(), fresh=fresh)

    async def attach(self, name: str, position: int | None = 0, by: str = "") -> AsyncIterator[dict[str, object]]:
        """As `hhd.node.runs.Runs.attach`."""
        found = await self._found(name)
        going = self._going(self._at(found.id))
        seat = going.audience.sit(by)
        try:
            async for event in self._told(going, found, seat, position):
                yield live.encoded(event)  # type: ignore[misc]
        finally:
            going.audience.leave(seat)
            if not len(going.audience) and going.worker is not None:
                going.worker.say(pair.Alone())

    async def _told(self, going: Going, found: Listed, seat: Seat, position: int | None) -> AsyncIterator[live.Event]:
        if going.rests:
            state, ask = await self._look_in(lambda control: standing_now(control, found.id))
            if going.rests:
                going.found(state, ask)
        end = await self._look_in(lambda control: control.transcript_bytes(found.id.hex()))
        yield live.Attached(
            session=found.id.hex(),
            title=found.title,
            program=found.program,
            folder=found.folder,
            position=end,
            by=seat.by,
        )
        at = end if position is None else position
        async for event in self._transcript(found.id, at):
            yield event
            at = event.position + len(event.piece)
        seat.begin(going.now())
        while True:
            told = await seat.next()
            if told is None or (isinstance(told, live.Emitted) and told.position > at):
                async for event in self._transcript(found.id, at):
                    yield event
                    at = event.position + len(event.piece)
            if told is None:
                continue
            if isinstance(told, live.Emitted):
                begin = at - told.position
                if begin < 0 or begin >= len(told.piece):
                    continue
                told = live.Emitted(position=at, piece=told.piece[begin:])
                at += len(told.piece)
            yield told

    async def _transcript(self, session: SessionId, at: int) -> AsyncIterator[live.Emitted]:
        """The durable transcript from byte `at` to where it ends."""
        from hhd.node.verbs import some_of

        while True:
            start = at
            parts = await self._look_in(lambda control: some_of(control.transcript(session.hex(), start=start)))  # noqa: B023
            for part in parts:
                yield live.Emitted(position=at, piece=part)
                at += len(part)
            if at == start:
                return

    async def say(self, name: str, text: str, by: str = "") -> Heard:
        """As `hhd.node.runs.Runs.say`."""
        if not text.strip() or len(text.encode("utf-8", "replace")) > LIVE_TEXT_BYTES_MAX:
            raise UsageError(f"Words are at least one, and at most {LIVE_TEXT_BYTES_MAX // 1024} KiB of text.")
        self._insist_on_going()
        going = self._going(self._at(await self._session(name)))
        by = named(by)
        word = Word(text, asyncio.get_running_loop().create_future())
        if len(going.unheard) >= WORDS_WAITING_MAX:
            raise RefusedError("The session has not heard what was said to it before; nothing was said. Wait a little.")
        if going.worker is not None:
            return await self._said(going, word, by)
        found = await self._found(going.session.hex())
        _insist_on_ears(found)
        going.unheard.append(word)
        going.audience.tell(live.Said(by=by, text=text), but=by)
        session = going.session.hex()
        if found.state is ListedState.WAITING and found.waiting != "input":
            return Heard(session=session, how="steering")  # It needs a yes first; it hears this with what comes of it.
        going.settle(by, "words")
        try:
            await self.start(going.session, going.folder, going.chosen_model)
        except BaseException:
            with contextlib.suppress(ValueError):
                going.unheard.remove(word)
            raise
        if found.waiting == "input":
            await self._heard_of(going, word)
        return Heard(session=session, how="prompt" if found.waiting == "input" else "steering")

    async def _said(self, going: Going, word: Word, by: str) -> Heard:
        assert going.worker is not None
        going.unheard.append(word)
        going.worker.say(pair.Say(text=word.text))
        going.audience.tell(live.Said(by=by, text=word.text), but=by)
        listening = isinstance(going.ask, live.Listening)
        if listening:
            going.settle(by, "words")
            await self._heard_of(going, word)
        return Heard(session=going.session.hex(), how="answer" if listening else "steering")

    async def _heard_of(self, going: Going, word: Word) -> None:
        """Wait until words are in the session."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HEARD_SECONDS):
                await asyncio.shield(word.heard)

    async def answer(self, name: str, id: str, shown: bytes, choice: str, message: str = "", by: str = "") -> Counted:
        """As `hhd.node.runs.Runs.answer`."""
        if choice not in ("yes", "always", "no", "later"):
            raise UsageError("An answer is yes, always, no or later.")
        if len(message.encode("utf-8", "replace")) > LIVE_TEXT_BYTES_MAX:
            raise UsageError(f"Words with an answer are at most {LIVE_TEXT_BYTES_MAX // 1024} KiB of text.")
        self._insist_on_going()
        going, by = self._going(self._at(await self._session(name))), named(by)
        session, ask = going.session.hex(), going.ask
        if not isinstance(ask, live.Question) or ask.id != id:
            return Counted(session=session, counted=False, by=going.settled_by.get(id, ""))
        if choice == "later":
            return Counted(session=session, counted=False, by="")
        if choice != "no" and shown != ask.shown:
            raise RefusedError("What was shown is not the text that is asked about, so the answer does not count.")
        going.answer = pair.Answer(id=id, shown=shown, choice=choice, message=message)
        going.settle(by, choice)
        if going.worker is not None:
            going.worker.say(going.answer)
        else:
            await self.start(going.session, going.folder, going.chosen_model)
        return Counted(session=session, counted=True, by=by)

    async def pause_named(self, name: str) -> Rested:
        """As `hhd.node.runs.Runs.pause`."""
        session = await self._session(name)
        state = await self.pause(session)
        if state is None:
            state = (await self._look_in(lambda control: standing_now(control, session)))[0]
            if state.name == "running":
                raise RefusedError(f"{state.sentence} Nothing was changed; it is paused there.")
        return Rested(session=session.hex(), state=state.name, sentence=state.sentence)

    async def keys(self, name: str, line: str, by: str) -> bool:
        """As `hhd.node.runs.Runs.keys`."""
        going = self._goings.get(await self._session(name))
        if going is not None and len(going.audience) > 1:
            by, shown = named(by), line.encode("utf-8", "replace")[:LIVE_LINE_BYTES_MAX].decode("utf-8", "ignore")
            going.audience.tell(live.Keys(by=by, line=visible(shown, one_line=True)), but=by)
        return True

    # A worker's life

    async def _start(self, going: Going, settle: tuple[str, str] | None, patience_seconds: float) -> None:
        """Begin a worker for a session, whose turn is held; return once it runs. Raises UserError, OSError."""
        self._insist_on_going()
        note = Note(going.session, going.folder, going.chosen_model, going.starts)
        await self._store(lambda control: should_run.note(control.store, note))
        going.over, going.cause, going.pausing = None, "", False
        going.rested.clear()
        try:
            environment = going.hand.environment
            if environment is None:
                environment = await asyncio.to_thread(self.environment_for, going.session)
            async with self._opening:
                self._insist_on_going()
                model = going.chosen_model or config.load().model.name
                worker = await self._forks.fork(with_model=not model.startswith("scripted:"))
                going.worker = worker
                worker.on_message = partial(self._heard, going, worker)
                worker.on_end = partial(self._gone, going, worker)
                going.opened = asyncio.get_running_loop().create_future()
                self._some.set()
                worker.say(self._order(going, environment, settle, patience_seconds))
                await going.opened
        except BaseException:
            if going.worker is None:
                with contextlib.suppress(UserError):
                    await self._store(lambda control: should_run.forget(control.store, going.session))
                going.rested.set()
            raise

    def _order(
        self,
        going: Going,
        environment: Mapping[str, str] | None,
        settle: tuple[str, str] | None,
        patience_seconds: float,
    ) -> pair.Start:
        answers = () if going.answer is None else (going.answer,)
        going.answer = None
        return pair.Start(
            session=going.session,
            config=config.held(),
            folder=None if going.folder is None else str(going.folder),
            model=going.chosen_model,
            settle=settle,
            environment=None if environment is None else tuple(environment.items()),
            model_environment=None if going.hand.model is None else tuple(going.hand.model.items()),
            words=tuple(word.text for word in going.unheard),
            answers=answers,
            grants=tuple(going.grants),
            linger_ms=int(self._linger_seconds * 1000),
            patience_ms=int(patience_seconds * 1000),
        )

    def _heard(self, going: Going, worker: Worker, message: pair.FromWorker) -> None:
        """Take what a worker says."""
        match message:
            case pair.Beat():
                pass
            case pair.Wants(writes=writes):
                self._take_turns(writes, self._turns[writes].wants(worker))
            case pair.Gives(writes=writes):
                self._take_turns(writes, self._turns[writes].gives(worker))
            case pair.Opened():
                log.note("session_runs", session=going.session.hex(), process=worker.process)
                going.tell(_state("running"))
                going.settle("", "")  # What was asked before, it asks again, unless it was decided meanwhile.
                if going.opened is not None and not going.opened.done():
                    going.opened.set_result(message)
            case pair.Stepped():
                going.answer = None
                if going.starts and self._tasks is not None:
                    going.starts = 0
                    self._tasks.create_task(self._stepped(going))
                for hear in self.on_step:
                    hear(going.session)
            case pair.Heard(count=count):
                going.hear(count)
            case pair.Granted(grant=grant):
                going.grants.append(grant)
            case pair.Over():
                going.over = message
            case _:
                going.tell(message)

    def _take_turns(self, writes: bool, turns: list[tuple[object, int]]) -> None:
        for worker, busy_ms in turns:
            assert isinstance(worker, Worker)
            worker.say(pair.Turn(writes=writes, busy_ms=busy_ms))

    async def _stepped(self, going: Going) -> None:
        """It made a step since a daemon started it: what is counted of its starts begins anew."""
        note = Note(going.session, going.folder, going.chosen_model, 0)

        def again(control: ControlService) -> None:
            if going.worker is not None:
                should_run.note(control.store, note)

        with contextlib.suppress(UserError, OSError):
            await self._store(again)

    def _gone(self, going: Going, worker: Worker) -> None:
        """A worker is gone, with a word or without."""
        for writes, turns in self._turns.items():
            self._take_turns(writes, turns.gives(worker))
        self._watching.forget(worker)
        if self._tasks is not None:
            with contextlib.suppress(RuntimeError):  # All is being cancelled.
                self._tasks.create_task(self._rest(going, worker))
        if going.opened is not None and not going.opened.done():
            over = going.over
            sentence = going.cause or "Its process ended before it began; nothing was changed."
            going.opened.set_exception(RefusedError(sentence) if over is None else _error(over))

    async def _rest(self, going: Going, worker: Worker) -> None:
        """Note that a session rests, and why; start it again only if something came meanwhile that it waits for."""
        async with going.turn:
            over = going.over
            state = await self._silent(going, worker) if over is None else self._state_of(going, over)
            waits = over is not None and over.end == "waiting"
            again = waits and not self._stopping and self._has_more(going, over)
            interrupted = over is None or over.end == "interrupted"
            cut_off = self._stopping and interrupted and not going.pausing and going.ask is None
            if not again and not cut_off:
                await self._forget(going, state if over is None else None)
            if not waits or (over is not None and over.effect == ""):
                going.settle("", "")
            if over is None or going.pausing or over.end != "waiting":
                going.grants.clear()  # "Always" is for as long as it runs, or waits for the next word.
            going.worker = going.opened = None
            going.rested.set()
            noted = log.note if over is not None else log.warn
            noted("session_rests", session=going.session.hex(), process=worker.process, state=state.name)
            if cut_off:  # Not told as a state: who is attached stays, and comes back with the next daemon.
                going.state = state
                going.audience.tell(live.Notice(text=state.sentence))
            else:
                going.tell(state)
            if again:
                going.answer = going.answer or None
                with contextlib.suppress(UserError, OSError):
                    await self._start(going, None, PATIENCE_SECONDS)

    def _has_more(self, going: Going, over: pair.Over | None) -> bool:
        """Whether what a session ended to wait for has come."""
        if over is None:
            return False
        return going.answer is not None or (over.effect == "input" and bool(going.unheard))

    async def _forget(self, going: Going, ended: live.State | None) -> None:
        def write(control: ControlService) -> None:
            should_run.forget(control.store, going.session)
            if ended is not None:  # What a list says of it; it is seen to be cut off by itself.
                listing.change(control.store, going.session, waiting=ended.sentence)

        with contextlib.suppress(UserError, OSError):  # A full disk: it is tried again when a daemon starts.
            await self._store(write)

    async def _silent(self, going: Going, worker: Worker) -> live.State:
        """How a session is whose process ended without a word."""
        for _ in range(50):  # The word of how it ended comes by another way, and may come a little later.
            if going.cause or worker.status is not None:
                break
            await asyncio.sleep(0.01)
        why = going.cause or f"Its process ended without a word ({_ended_by(worker.status)})."
        sentence = f"{why} Every step that was done is kept; what was being done may have to be settled."
        return _state("ended", sentence, (_resume(going),), status=Exit.UNEXPECTED)

    def _state_of(self, going: Going, over: pair.Over) -> live.State:
        sentence, name = over.sentence, {"interrupted": "paused", "failed": "ended"}.get(over.end, over.end)
        if over.end == "interrupted" and self._stopping and not going.pausing and going.ask is None:
            sentence = "Paused, since the daemon ends; it goes on when the daemon starts again."
        return live.State(name=name, sentence=sentence, ways=over.ways, effect=over.effect, status=over.status)

    # Looking up

    def _insist_on_going(self) -> None:
        if self._stopping:
            raise RefusedError("The daemon is ending, so this was not done; nothing was changed.")

    def _at(self, session: SessionId) -> SessionId:
        """A person is at a session."""
        for hear in self.on_person:
            hear(session)
        return session

    def _going(self, session: SessionId) -> Going:
        going = self._goings.get(session)
        if going is None:
            going = self._goings[session] = Going(session)
            self._some.set()
        return going

    async def _session(self, name: str) -> SessionId:
        """The session that `name` means; one that is at hand, by its id, without the store."""
        await self._noted.wait()
        if len(name) == 64:
            with contextlib.suppress(ValueError):
                session = SessionId(StatementId(bytes.fromhex(name)))
                if session in self._goings:
                    return session
        return (await self._found(name)).id

    async def _found(self, name: str) -> Listed:
        from hhd.node import naming

        await self._noted.wait()
        return await self._look_in(lambda control: naming.session(control.store, name))

    async def _store(self, act: Callable[[ControlService], T]) -> T:
        """Do something with the store that changes it."""
        return await self._lanes.changing.do(lambda: self._done(act))

    async def _look_in(self, act: Callable[[ControlService], T]) -> T:
        """Look into the store."""
        return await self._lanes.looking.do(lambda: self._done(act))

    def _done(self, act: Callable[[ControlService], T]) -> T:
        with self._opened() as control:
            return act(control)


def _state(name: str, sentence: str = "", ways: tuple[str, ...] = (), *, status: int = 0) -> live.State:
    return live.State(name=name, sentence=sentence, ways=ways, effect="", status=int(status))


def _resume(going: Going) -> str:
    return f"hhd resume {going.session.hex()[:ID_SHOWN]}"


def _ended_by(status: int | None) -> str:
    if status is None:
        return "nobody said how"
    if os.WIFSIGNALED(status):
        return f"by {signal.Signals(os.WTERMSIG(status)).name}"
    return f"with status {os.waitstatus_to_exitcode(status)}"


def _error(over: pair.Over) -> UserError:
    from hhd.base.errors import error_of

    return error_of(Exit(over.status) if over.status in range(1, 6) else Exit.UNEXPECTED, over.sentence or "It ended.")


def _absolute(model: str | None, folder: Path | None) -> str | None:
    """A script is named from the folder that the session works in: the daemon is in another one."""
    prefix = "scripted:"
    if model is None or not model.startswith(prefix) or folder is None:
        return model
    path = folder / model.removeprefix(prefix)
    return f"{prefix}{path}" if path.is_file() else model


def _insist_on_ears(found: Listed) -> None:
    shown = found.id.hex()[:ID_SHOWN]
    if found.state is ListedState.FINISHED:
        raise RefusedError(f"Session {shown} has finished, so it hears nothing; hhd fork {shown} goes on from its end.")
    if found.state is ListedState.UNCERTAIN:
        raise RefusedError(
            f"Session {shown} waits for your word on what may have run; say that first: hhd settle {shown}."
        )
