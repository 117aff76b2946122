"""Sessions that run in the daemon, each in a process of its own: started, told about, asked for, paused, ended.

    asked to run -> noted on disk that it should -> a worker is forked -> it runs -> it rests for a reason -> not noted

So whatever ends without a word, what should run is known. A worker that ended without a word is not started again by
itself: its session says so, and waits. A daemon that starts goes on with what was noted.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from hhd.base import config, log
from hhd.base.errors import Exit, RefusedError, UserError
from hhd.node import handed, listing, pair, resting, should_run
from hhd.node.control import ControlService
from hhd.node.forks import Forks, Worker
from hhd.node.going import Going
from hhd.node.lanes import Lanes
from hhd.node.naming import ID_SHOWN
from hhd.node.recapturing import Recapturing
from hhd.node.relay_ports import Elsewhere
from hhd.node.service import Verb
from hhd.node.should_run import Note
from hhd.node.spares import Spares
from hhd.node.store_access import StoreAccess
from hhd.node.turns import Turns
from hhd.node.watching import LOOK_SECONDS, Watching
from hhd.store.errors import MissingError
from hhd_protocol import live
from hhd_protocol.ids import CheckpointId, SessionId

Open = Callable[[], AbstractContextManager[ControlService]]

LINGER_SECONDS = 20.0
"""A worker waits so long for a person: one who reads a question and answers at once finds it there."""

PAUSE_SECONDS = 10.0
"""For a worker to pause: an effect that is cancelled ends in a second or two. After it, it is killed."""

PATIENCE_SECONDS, PATIENCE_AFTER_START_SECONDS = 3.0, 20.0
"""For another process to let go of a session; after a daemon died its workers may still be pausing."""

LOOKED_SECONDS = 10.0
"""To capture a folder before its session is handed on; in the pause it is captured again, if it differs then."""

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
        self.store = StoreAccess(opened=opened, lanes=lanes)
        self._linger_seconds = LINGER_SECONDS if linger_seconds is None else linger_seconds
        self._goings: dict[SessionId, Going] = {}
        self._forks = Forks()
        self._spares = Spares(self._forks)
        self._recapturing = Recapturing(self._spares, self._has_stepped)
        self._turns = {False: Turns(), True: Turns(at_once=1)}
        """To compute, and to write to the store."""
        self._watching = watching or Watching()
        self._opening = asyncio.Semaphore(OPENING_AT_ONCE)
        self._some = asyncio.Event()
        self._tasks: asyncio.TaskGroup | None = None
        self._stopping = False
        self.noted = asyncio.Event()
        """What should run is known."""
        self.trouble = ""
        """What the person should know of this part, as a sentence."""
        self.at_work: frozenset[SessionId] = frozenset()
        """Sessions whose process has begun with them; another thread may read this."""
        self.on_step: list[Callable[[SessionId], None]] = []
        """Called after each durable step of a session."""
        self.on_person: list[Callable[[SessionId], None]] = []
        """Called whenever a person is at a session here: attaches to it, prompts it, answers it, has it go on."""
        self.elsewhere: Elsewhere | None = None
        """Sessions that run at other devices, where there are any."""
        self.environment_for: Callable[[SessionId], Mapping[str, str] | None] = lambda _: None
        """The environment of commands where no terminal handed one over; called in a thread. None: the daemon's."""

    # As a part

    def verbs(self) -> dict[str, Verb]:
        """As `hhd.node.runs` asks them."""
        from hhd.node.run_verbs import RunVerbs

        return RunVerbs(self).table()

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
            for one in await self.store.change(lambda control: should_run.noted(control.store)):
                self.going(one.session).tell(resting.state("running", "It goes on, as before the daemon ended."))
                self._tasks.create_task(self._go_on_with(one))
        except UserError as error:  # Damage of the store is no reason not to be asked about it.
            self.trouble = f"What ran before this daemon began is not known: {error}"
        finally:
            self.noted.set()

    async def _go_on_with(self, one: Note) -> None:
        going = self.going(one.session)
        if one.starts >= STARTS_MAX:
            sentence = f"It was begun {STARTS_MAX} times without making a step, so it is not begun again by itself."
            with contextlib.suppress(UserError, OSError):  # A full disk: then the next daemon says it again.
                await self.store.change(lambda control: should_run.forget(control.store, one.session))
            going.tell(
                resting.state(
                    "ended", sentence, (f"hhd resume {one.session.hex()[:ID_SHOWN]}",), status=Exit.UNEXPECTED
                )
            )
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
        going = self.going(session)
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

    async def look(self, session: SessionId) -> None:
        """Have what the newest checkpoint of a session says of its folder be as the folder is now, if that can be.

        One that runs is not interrupted: after each of its effects the folder is captured anyway.
        """
        going = self._goings.get(session)
        with contextlib.suppress(TimeoutError, UserError, OSError):  # Then it is as the last effect left it.
            async with asyncio.timeout(LOOKED_SECONDS):
                if going is not None and going.worker is not None:
                    looked = going.looked = asyncio.get_running_loop().create_future()
                    going.worker.say(pair.Look())
                    await looked
                elif not self._stopping:
                    await self._recapturing.capture(session)

    async def ready(self, session: SessionId, head: CheckpointId) -> None:
        """Have a process wait for a session that comes to this device, with its program loaded as it stands at `head`.

        Raises UserError where the program does not load here, or is another then.
        """
        if self._stopping or ((going := self._goings.get(session)) is not None and going.worker is not None):
            return
        model = config.load().model.name
        order = pair.Prepare(session=session, head=head, config=config.held(), model=None)
        await self._spares.ready(order, with_model=not model.startswith("scripted:"))

    def unready(self, session: SessionId) -> None:
        """It does not come after all."""
        self._spares.drop(session)

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

    async def halt(self, session: SessionId, *, soft: bool = False) -> None:
        """Pause a session that is to go elsewhere: its last step is durable, and no process has it, when this returns.

        Its newest checkpoint names its folder as it is then, whoever wrote there. That it should not run here is noted
        a little later: who has it then refuses to begin it.
        """
        going = self._goings.get(session)
        if going is None:
            await self._recapture(session)
            return
        async with going.turn:
            if going.worker is None:
                await self._recapture(session)
                return
            going.pausing = True
            going.worker.say(pair.Pause(soft=soft, captures=True))
        quiet = asyncio.ensure_future(going.quiet.wait())
        try:
            if not soft:
                await asyncio.wait([quiet], timeout=PAUSE_SECONDS)
            if soft or quiet.done():
                await quiet
            else:
                await self._rested(going)
        finally:
            quiet.cancel()

    async def _recapture(self, session: SessionId) -> None:
        """In the pause of one that rests; nothing waits for that, so it takes what it takes."""
        if not self._stopping:
            await self._recapturing.again(session)

    def chosen(self, session: SessionId) -> tuple[Path | None, str | None]:
        """Return the folder and the model that a session runs with, as `start` was given them."""
        going = self._goings.get(session)
        return (None, None) if going is None else (going.folder, going.chosen_model)

    def tell(self, session: SessionId, state: live.State) -> None:
        """Tell who is attached to a session that does not run here how it is: where it runs now, say."""
        going = self._goings.get(session)
        if going is None:
            return
        if going.worker is not None:
            going.afterwards = state if going.quiet.is_set() else None
            return
        going.settle("", "")
        going.tell(state)

    def running(self) -> dict[SessionId, live.State]:
        """Return the sessions that have a process, and how they are."""
        return {one.session: one.state for one in self._goings.values() if one.worker is not None and one.state}

    def looked_again(self, session: SessionId) -> None:
        """Statements of a session came from elsewhere: one that this device may not advance any more stops soon."""
        going = self._goings.get(session)
        if going is None or self._tasks is None:
            return
        if going.worker is None:
            self.look_for_removed()
        else:
            self._tasks.create_task(self._fence(going, going.worker))

    def look_for_removed(self) -> None:
        """A session may have been removed: who is attached to it is told, and let go."""
        resting = [one for one in self._goings.values() if one.worker is None and not one.turn.locked()]
        if resting and self._tasks is not None and not self._stopping:
            self._tasks.create_task(self._let_go_of_removed(resting))

    async def _let_go_of_removed(self, resting: list[Going]) -> None:
        def removed(control: ControlService) -> list[Going]:
            return [one for one in resting if not _is_here(control, one.session)]

        with contextlib.suppress(UserError, OSError):  # It is looked again when the next thing changes.
            for going in await self.store.look(removed):
                if going.worker is None and not going.turn.locked():
                    going.removed(f"Session {going.session.hex()[:ID_SHOWN]} was removed from this device.")

    async def _fence(self, going: Going, worker: Worker) -> None:
        def fenced(control: ControlService) -> bool:
            from hhd.node import sessions

            return sessions.view(control.store, control.me, going.session).owner != control.me.id

        try:
            stops = await self.store.look(fenced)
        except (UserError, OSError) as error:  # Its next step looks by itself, and is refused.
            log.fault("session_not_looked_at", error, session=going.session.hex())
            return
        if stops and going.worker is worker:
            worker.say(pair.Pause())  # What it has in hand becomes its closing checkpoint.

    # A worker's life

    async def _start(self, going: Going, settle: tuple[str, str] | None, patience_seconds: float) -> None:
        """Begin a worker for a session, whose turn is held; return once it runs. Raises UserError, OSError."""
        self.insist_on_going()
        note = Note(going.session, going.folder, going.chosen_model, going.starts)
        await self.store.change(lambda control: should_run.note(control.store, note))
        going.over, going.cause, going.pausing = None, "", False
        going.rested.clear()
        going.quiet.clear()
        going.afterwards = None
        try:
            environment = going.hand.environment
            if environment is None:
                environment = await asyncio.to_thread(self.environment_for, going.session)
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
                with contextlib.suppress(UserError):
                    await self.store.change(lambda control: should_run.forget(control.store, going.session))
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
            case pair.Beat() | pair.Prepared() | pair.Recaptured():
                pass
            case pair.Looked():
                if going.looked is not None and not going.looked.done():
                    going.looked.set_result(None)
            case pair.Wants(writes=writes):
                self._take_turns(writes, self._turns[writes].wants(worker))
            case pair.Gives(writes=writes):
                self._take_turns(writes, self._turns[writes].gives(worker))
            case pair.Opened():
                log.note("session_runs", session=going.session.hex(), process=worker.process)
                self.at_work |= {going.session}
                going.tell(resting.state("running"))
                going.settle("", "")  # What was asked before, it asks again, unless it was decided meanwhile.
                if going.opened is not None and not going.opened.done():
                    going.opened.set_result(message)
            case pair.Stepped():
                going.answer = None
                if going.starts and self._tasks is not None:
                    going.starts = 0
                    self._tasks.create_task(self._stepped(going))
                self._has_stepped(going.session)
            case pair.Heard(count=count):
                going.hear(count)
            case pair.Granted(grant=grant):
                going.grants.append(grant)
            case pair.Over():
                going.over = message
                going.quiet.set()
            case _:
                going.tell(message)

    def _has_stepped(self, session: SessionId) -> None:
        for hear in self.on_step:
            hear(session)

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
            await self.store.change(again)

    def _gone(self, going: Going, worker: Worker) -> None:
        """A worker is gone, with a word or without."""
        for writes, turns in self._turns.items():
            self._take_turns(writes, turns.gives(worker))
        self._watching.forget(worker)
        if self._tasks is not None:
            with contextlib.suppress(RuntimeError):  # All is being cancelled.
                self._tasks.create_task(self._rest(going, worker))
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
            again = waits and not self._stopping and self._has_more(going, over)
            interrupted = over is None or over.end == "interrupted"
            cut_off = self._stopping and interrupted and not going.pausing and going.ask is None
            if over is not None:
                state = resting.told(over, goes_on=cut_off)
            if not again and not cut_off:
                await self._forget(going, state if over is None else None)
            if not waits or (over is not None and over.effect == ""):
                going.settle("", "")
            if over is None or going.pausing or over.end != "waiting":
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
            await self.store.change(write)

    # Looking up

    def insist_on_going(self) -> None:
        """Raise RefusedError where the daemon is ending."""
        if self._stopping:
            raise RefusedError("The daemon is ending, so this was not done; nothing was changed.")

    def at_hand(self, session: SessionId) -> Going | None:
        """Return a session that runs, or that somebody is attached to; None for any other."""
        return self._goings.get(session)

    def person_at(self, session: SessionId) -> SessionId:
        """A person is at a session."""
        for hear in self.on_person:
            hear(session)
        return session

    def going(self, session: SessionId) -> Going:
        """Return a session as the daemon has it from now on, be it at work or not."""
        going = self._goings.get(session)
        if going is None:
            going = self._goings[session] = Going(session)
            self._some.set()
        return going


def _is_here(control: ControlService, session: SessionId) -> bool:
    try:
        control.store.session(session)
    except MissingError:
        return False
    return True
