"""The life of a session's process as the daemon leads it: begun, heard, gone; then its session rests for a reason.

Who begins one holds the session's turn (`hhd.node.going`). What should run is on disk before a process is asked for;
that it should not is written before anybody is told that it rests.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from hhd.base import config, log
from hhd.base.errors import RefusedError, UserError
from hhd.node import listing, pair, resting, should_run
from hhd.node.control import ControlService
from hhd.node.forks import Forks, Worker
from hhd.node.going import Going
from hhd.node.should_run import Note
from hhd.node.spares import Spares
from hhd.node.store_access import StoreAccess
from hhd.node.turns import Asked, Given, Taken, Turns, Word
from hhd.node.watching import Watching
from hhd_protocol import live
from hhd_protocol.ids import SessionId

PATIENCE_SECONDS, PATIENCE_AFTER_START_SECONDS = 3.0, 20.0
"""For another process to let go of a session; after a daemon died its workers may still be pausing."""

AGAIN_SECONDS = 10.0
"""After which what could not be begun, since the store was busy or the machine had no room, is tried again: whoever
writes for long has ended by then, or will not soon."""

OPENING_AT_ONCE = 4
"""Workers that open their session at a time: each reads and checks what is signed in it."""


class Lives:
    """Of all workers of one daemon; used by the loop's thread.

    `some`: set when there is a process to look after. `stepped`: called after each durable step of a session.
    `environment_for`: the environment of commands where no terminal handed one over, None the daemon's; called in a
    thread.
    """

    def __init__(
        self,
        *,
        store: StoreAccess,
        forks: Forks,
        spares: Spares,
        watching: Watching,
        linger_seconds: float,
        some: asyncio.Event,
        stepped: Callable[[SessionId, bool], None],
        environment_for: Callable[[SessionId], Mapping[str, str] | None],
    ) -> None:
        self._store, self._forks, self._spares, self._watching = store, forks, spares, watching
        self._linger_seconds, self._some = linger_seconds, some
        self._on_step, self._environment_for = stepped, environment_for
        self._turns = {False: Turns(), True: Turns(at_once=1)}
        """To compute, and to write to the store."""
        self._opening = asyncio.Semaphore(OPENING_AT_ONCE)
        self.tasks: asyncio.TaskGroup | None = None
        """What comes of a message, or of an end, is done in it; None until the daemon runs."""
        self.stopping = False
        """The daemon is ending: nothing begins any more."""
        self.at_work: frozenset[SessionId] = frozenset()
        """Sessions whose process has begun with them; another thread may read this."""
        self.alone: set[SessionId] = set()
        """Sessions that should run, and rest until another device has answered, a person is at them, or what could not
        be done is tried again; changed by who holds their turn."""
        self.again: Callable[[SessionId], None] = lambda _: None
        """Called when one of those is to be tried again."""
        self._later: dict[SessionId, asyncio.TimerHandle] = {}
        self.answers = 0
        """How often another device has answered since it woke, or this one did."""

    def insist_on_going(self) -> None:
        """Raise RefusedError where the daemon is ending."""
        if self.stopping:
            raise RefusedError("The daemon is ending, so this was not done; nothing was changed.")

    async def start(
        self,
        going: Going,
        settle: tuple[str, str] | None,
        patience_seconds: float,
        *,
        noted: bool = False,
        by_itself: bool = False,
    ) -> None:
        """Begin a worker for a session, whose turn is held; return once it runs. Raises UserError, OSError.

        `noted`: that it should run is on disk already. `by_itself`: nobody waits for it, so it should run whatever
        keeps it from beginning now; where this raises and it has no worker, who called lets it `wait`.
        """
        self.insist_on_going()
        self.alone.discard(going.session)
        going.answers = self.answers
        if not noted:
            note = Note(going.session, going.folder, going.chosen_model, going.starts)
            await self._store.change(lambda control: should_run.note(control.store, note))
        going.over, going.cause, going.pausing, going.by_itself = None, "", False, by_itself
        going.rested.clear()
        going.quiet.clear()
        going.afterwards = None
        try:
            environment = going.hand.environment
            if environment is None:
                environment = await asyncio.to_thread(self._environment_for, going.session)
            async with self._opening:
                self.insist_on_going()
                model = going.chosen_model or config.load().model.name
                worker = self._spares.take(going.session)
                if worker is None:
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
                if not by_itself:
                    with contextlib.suppress(UserError):
                        await self._store.change(lambda control: should_run.forget(control.store, going.session))
                going.rested.set()
                going.quiet.set()
            raise

    def _order(
        self,
        going: Going,
        environment: Mapping[str, str] | None,
        settle: tuple[str, str] | None,
        patience_seconds: float,
    ) -> pair.Start:
        answers = () if going.answer is None else (going.answer,)
        going.answer, going.carried = None, going.answer
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
            case pair.Beat() | pair.Prepared() | pair.Recaptured():
                pass
            case pair.Looked():
                if going.looked is not None and not going.looked.done():
                    going.looked.set_result(None)
            case pair.Wants(writes=writes):
                self._tell_turns(writes, self._turns[writes].wants(worker))
            case pair.Gives(writes=writes):
                self._tell_turns(writes, self._turns[writes].gives(worker))
            case pair.AtIt(writes=writes):
                self._turns[writes].is_at_it(worker)
            case pair.Opened():
                log.note("session_runs", session=going.session.hex(), process=worker.process)
                self.at_work |= {going.session}
                going.tell(resting.state("running"))
                going.settle("", "")  # What was asked before, it asks again, unless it was decided meanwhile.
                if going.opened is not None and not going.opened.done():
                    going.opened.set_result(message)
            case pair.Stepped(intent=intent):
                going.answer = going.carried = None
                if going.starts and self.tasks is not None:
                    going.starts = 0
                    self.tasks.create_task(self._stepped(going))
                self._on_step(going.session, intent)
            case pair.Heard(count=count):
                going.hear(count)
            case pair.Granted(grant=grant):
                going.grants.append(grant)
            case pair.Over():
                going.over = message
                going.quiet.set()
            case _:
                going.tell(message)

    def look(self) -> None:
        """See that nobody waits for a worker that does not answer; called from time to time."""
        for writes, turns in self._turns.items():
            self._tell_turns(writes, turns.look())

    def _tell_turns(self, writes: bool, words: list[Word]) -> None:
        for word in words:
            worker = word.who
            assert isinstance(worker, Worker)
            match word:
                case Given(busy_ms=busy_ms, kept=kept):
                    worker.say(pair.Turn(writes=writes, busy_ms=busy_ms, kept=kept))
                case Asked():
                    worker.say(pair.Back(writes=writes))
                case Taken():
                    log.warn("turn_taken", process=worker.process)

    async def _stepped(self, going: Going) -> None:
        """It made a step since a daemon started it: what is counted of its starts begins anew."""
        note = Note(going.session, going.folder, going.chosen_model, 0)

        def again(control: ControlService) -> None:
            if going.worker is not None:
                should_run.note(control.store, note)

        with contextlib.suppress(UserError, OSError):
            await self._store.change(again)

    def _gone(self, going: Going, worker: Worker) -> None:
        """A worker is gone, with a word or without."""
        for writes, turns in self._turns.items():
            self._tell_turns(writes, turns.gives(worker))
        self._watching.forget(worker)
        if self.tasks is not None:
            with contextlib.suppress(RuntimeError):  # All is being cancelled.
                self.tasks.create_task(self._rest(going, worker))
        if going.looked is not None and not going.looked.done():
            going.looked.set_result(None)
        if going.opened is not None and not going.opened.done():
            over = going.over
            sentence = going.cause or "Its process ended before it began; nothing was changed."
            going.opened.set_exception(RefusedError(sentence) if over is None else resting.error(over))

    async def _rest(self, going: Going, worker: Worker) -> None:
        """Note that a session rests, and why; start it again only if something came meanwhile that it waits for."""
        async with going.turn:
            over = going.over
            if over is None:
                state = await resting.silent(going, worker)
            waits = over is not None and over.end == "waiting"
            alone = over is not None and over.end == "alone" and not going.pausing
            put_off = self._is_put_off(going)
            if put_off:
                going.answer = going.answer or going.carried
            if alone or put_off:  # Before anything is waited for: an answer that comes meanwhile is for it, too.
                self.alone.add(going.session)
            again = not self.stopping and (self._has_more(going, over) if waits else alone and self._was_heard(going))
            interrupted = over is None or over.end == "interrupted"
            cut_off = self.stopping and interrupted and not going.pausing and going.ask is None
            if over is not None:
                told = replace(over, end="failed") if over.end == "busy" and not put_off else over
                state = resting.told(told, goes_on=cut_off)
            if alone:
                await self.wait(going)
            elif put_off:
                await self.wait_for_room(going, resting.BUSY)
            elif not again and not cut_off:
                await self._forget(going, state if over is None else None)
            if not waits or (over is not None and over.effect == ""):
                going.settle("", "")
            if not put_off and (over is None or going.pausing or over.end != "waiting"):
                going.grants.clear()  # "Always" is for as long as it runs, or waits for the next word.
            going.worker = going.opened = None
            self.at_work -= {going.session}
            going.rested.set()
            going.quiet.set()
            noted = log.note if over is not None else log.warn
            noted("session_rests", session=going.session.hex(), process=worker.process, state=state.name)
            if cut_off:  # Not told as a state: who is attached stays, and comes back with the next daemon.
                going.state = state
                going.audience.tell(live.Notice(text=state.sentence))
            else:
                going.tell(state)
            if going.afterwards is not None:
                going.settle("", "")
                going.tell(going.afterwards)
            if again:
                try:
                    await self.start(going, None, PATIENCE_SECONDS, by_itself=True)
                except (UserError, OSError) as error:
                    if going.worker is None:
                        await self.wait_for_room(going, resting.hindered(error))

    def _has_more(self, going: Going, over: pair.Over | None) -> bool:
        """Whether what a session ended to wait for has come."""
        if over is None:
            return False
        return going.answer is not None or (over.effect == "input" and bool(going.unheard))

    def _was_heard(self, going: Going) -> bool:
        """Whether another device has answered since a session was begun that was refused for want of that."""
        return going.answers != self.answers

    def _is_put_off(self, going: Going) -> bool:
        """Whether a session whose process ended since the store was busy is tried again: nobody was told otherwise."""
        over, opened = going.over, going.opened
        began = opened is not None and opened.done() and opened.exception() is None
        return over is not None and over.end == "busy" and not going.pausing and (began or going.by_itself)

    async def wait_for_room(self, going: Going, why: str) -> None:
        """As `wait`, and try again in a while: the store was busy, or the machine had no room."""
        await self.wait(going, why)
        self.try_again(going.session)

    def try_again(self, session: SessionId) -> None:
        """Have a session that waits tried again in a while: once, however often it was tried since, by whomever."""

        def now() -> None:
            del self._later[session]
            self.again(session)

        if session not in self._later:
            self._later[session] = asyncio.get_running_loop().call_later(AGAIN_SECONDS, now)

    async def wait(self, going: Going, why: str = resting.ALONE) -> None:
        """Keep noted that a session should run, and `why` it does not yet. This start counts not.

        Its turn is held.
        """
        self.alone.add(going.session)
        going.starts = max(0, going.starts - 1)
        note = Note(going.session, going.folder, going.chosen_model, going.starts)

        def write(control: ControlService) -> None:
            should_run.note(control.store, note)
            listing.change(control.store, going.session, waiting=why)

        with contextlib.suppress(UserError, OSError):  # It was noted when it began.
            await self._store.change(write)

    async def _forget(self, going: Going, ended: live.State | None) -> None:
        def write(control: ControlService) -> None:
            should_run.forget(control.store, going.session)
            if ended is not None:  # What a list says of it; it is seen to be cut off by itself.
                listing.change(control.store, going.session, waiting=ended.sentence)

        with contextlib.suppress(UserError, OSError):  # A full disk: it is tried again when a daemon starts.
            await self._store.change(write)
