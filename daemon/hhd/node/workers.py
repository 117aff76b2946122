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
from pathlib import Path

from hhd.base import config, log
from hhd.base.errors import Exit, UserError
from hhd.node import handed, listing, pair, resting, should_run
from hhd.node.control import ControlService
from hhd.node.forks import Forks, Worker
from hhd.node.going import Going
from hhd.node.handoff import held_back
from hhd.node.lanes import Lanes
from hhd.node.lives import AGAIN_SECONDS, PATIENCE_AFTER_START_SECONDS, PATIENCE_SECONDS, Lives
from hhd.node.naming import ID_SHOWN
from hhd.node.recapturing import Recapturing
from hhd.node.relay.ports import Elsewhere
from hhd.node.service import Verb
from hhd.node.should_run import Note
from hhd.node.spares import Spares
from hhd.node.store_access import StoreAccess
from hhd.node.watching import LOOK_SECONDS, Watching
from hhd.store.errors import DamagedStoreError, MissingError
from hhd_protocol import live
from hhd_protocol.ids import CheckpointId, SessionId

Open = Callable[[], AbstractContextManager[ControlService]]

LINGER_SECONDS = 20.0
"""A worker waits so long for a person: one who reads a question and answers at once finds it there."""

PAUSE_SECONDS = 10.0
"""For a worker to pause: an effect that is cancelled ends in a second or two. After it, it is killed."""

LOOKED_SECONDS = 10.0
"""To capture a folder before its session is handed on; in the pause it is captured again, if it differs then."""

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
        self._goings: dict[SessionId, Going] = {}
        self._forks = Forks()
        self._spares = Spares(self._forks)
        self._recapturing = Recapturing(self._spares, self._has_stepped)
        self._watching = watching or Watching()
        self._some = asyncio.Event()
        self._lives = Lives(
            store=self.store,
            forks=self._forks,
            spares=self._spares,
            watching=self._watching,
            linger_seconds=LINGER_SECONDS if linger_seconds is None else linger_seconds,
            some=self._some,
            stepped=self._has_stepped,
            environment_for=lambda session: self.environment_for(session),
        )
        self._lives.again = self.attended
        self._tasks: asyncio.TaskGroup | None = None
        self.noted = asyncio.Event()
        """What should run is known."""
        self.trouble = ""
        """What the person should know of this part, as a sentence."""
        self.on_step: list[Callable[[SessionId], None]] = []
        """Called after each durable step of a session."""
        self.on_intent: list[Callable[[SessionId], None]] = []
        """Called as well, and first, where the step has an intent: its effect begins now."""
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
                self._lives.tasks = self._tasks
                self._tasks.create_task(self._go_on_with_noted())
                while True:
                    await self._some.wait()
                    self._look()
                    await asyncio.sleep(LOOK_SECONDS)
        finally:
            self._forks.close()

    async def stop(self) -> None:
        """Pause all workers; what runs now goes on when a daemon starts again."""
        self._lives.stopping = True
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
        self._lives.look()
        if not some:
            self._some.clear()

    def _end(self, going: Going, cause: str) -> None:
        if going.worker is not None:
            going.cause = going.cause or cause
            going.worker.kill()

    async def _go_on_with_noted(self) -> None:
        assert self._tasks is not None
        while not await self._went_on_with_noted(self._tasks):
            await asyncio.sleep(AGAIN_SECONDS)

    async def _went_on_with_noted(self, tasks: asyncio.TaskGroup) -> bool:
        """Whether that is done, or cannot be: damage of the store is no reason not to be asked about it."""
        try:
            for one in await self.store.change(lambda control: held_back.not_held(control.store)):
                going = self.going(one.session)
                if going.worker is None and not going.turn.locked():  # Nobody was quicker.
                    going.tell(resting.state("running", "It goes on, as before the daemon ended."))
                    tasks.create_task(self._go_on_with(one))
        except (UserError, OSError) as error:
            self.trouble = f"What ran before this daemon began is not known: {error}"
            return isinstance(error, DamagedStoreError)
        finally:
            self.noted.set()
        self.trouble = ""
        return True

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
            await self._begin_or_wait(going, one)

    async def _begin(self, going: Going, one: Note) -> None:
        """Begin a session as it was noted, whose turn is held, unless it runs; raises UserError, OSError."""
        if going.worker is None and not self._lives.stopping:
            going.folder, going.chosen_model, going.starts = one.folder, one.model, one.starts + 1
            await self._lives.start(going, None, PATIENCE_AFTER_START_SECONDS, by_itself=True)

    async def _begin_or_wait(self, going: Going, one: Note) -> None:
        """As `_begin`; what cannot be done now is tried again, and told to who attaches."""
        try:
            await self._begin(going, one)
        except (UserError, OSError) as error:
            if going.worker is None and not self._lives.stopping:
                why = resting.hindered(error)
                await self._lives.wait_for_room(going, why)
                going.tell(resting.state("waiting", why, status=Exit.REFUSED))

    def others_answered(self) -> None:
        """The other devices have answered what they know: what rested for want of that goes on."""
        self._lives.answers += 1
        for session in list(self._lives.alone):
            self.attended(session)

    def attended(self, session: SessionId) -> None:
        """A person came to a session, or another device answered: if it rests for want of that, it goes on."""
        if session in self._lives.alone and self._tasks is not None and not self._lives.stopping:
            self._tasks.create_task(self._go_on_after_all(session))

    async def _go_on_after_all(self, session: SessionId) -> None:
        """Go on with a session, unless it should not run any more: a person paused it, it went to another device.

        What cannot be done now is tried again in a while, or at the next answer: until it runs, it waits.
        """
        going = self.going(session)
        async with going.turn:
            try:
                noted = await self.store.look(lambda control: held_back.not_held(control.store))
            except (UserError, OSError):
                self._lives.try_again(session)
                return
            one = next((one for one in noted if one.session == session), None)
            if session not in self._lives.alone:  # It was begun, or paused.
                return
            if one is None:
                self._lives.alone.discard(session)
                return
            await self._begin_or_wait(going, one)

    async def rest(self, session: SessionId) -> None:
        """A person wants a session to rest that should run, and waits for another device to answer."""
        if session not in self._goings and session not in self._lives.alone:
            return
        going = self.going(session)
        async with going.turn:  # It may be about to wait, or to go on: then there is a process that can be paused.
            if session not in self._lives.alone:
                return

            def write(control: ControlService) -> None:
                should_run.forget(control.store, session)
                listing.change(control.store, session, waiting="")

            await self.store.change(write)
            self._lives.alone.discard(session)
            going.tell(resting.state("paused", "It is paused.", (f"hhd resume {session.hex()[:ID_SHOWN]}",)))

    # For other parts

    @property
    def at_work(self) -> frozenset[SessionId]:
        """Sessions whose process has begun with them; another thread may read this."""
        return self._lives.at_work

    async def start(
        self,
        session: SessionId,
        folder: Path | None = None,
        model: str | None = None,
        environment: Mapping[str, str] | None = None,
        *,
        key: str | None = None,
        settle: tuple[str, str] | None = None,
        noted: bool = False,
    ) -> bool:
        """Run a session; False where it runs already. Returns once it is held and runs.

        `folder`, `model`: None as in `should_run.Note`. `noted`: that very note is on disk
        already. Raises UserError where it cannot be driven.
        """
        going = self.going(session)
        try:
            async with going.turn:
                if going.worker is not None:
                    return False
                going.folder, going.chosen_model, going.starts = folder, model, 0
                if environment is not None or key is not None:
                    going.hand = handed.hand(environment, key)
                await self._lives.start(going, settle, PATIENCE_SECONDS, noted=noted)
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
                elif not self._lives.stopping:
                    await self._recapturing.capture(session)

    def look_ahead(self, session: SessionId) -> None:
        """It may soon be asked to `look`: one that waits for a person has a capture of its folder ready by then."""
        going = self._goings.get(session)
        if going is not None and going.worker is not None:
            going.worker.say(pair.Look(ahead=True))

    async def ready(self, session: SessionId, head: CheckpointId) -> None:
        """Have a process wait for a session that comes to this device, with its program loaded as it stands at `head`.

        Raises UserError where the program does not load here, or is another then.
        """
        if self._lives.stopping or ((going := self._goings.get(session)) is not None and going.worker is not None):
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
        if not self._lives.stopping:
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
        if resting and self._tasks is not None and not self._lives.stopping:
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

    # Looking up

    def _has_stepped(self, session: SessionId, intent: bool = False) -> None:
        for hear in (*self.on_intent, *self.on_step) if intent else self.on_step:
            hear(session)

    def insist_on_going(self) -> None:
        """Raise RefusedError where the daemon is ending."""
        self._lives.insist_on_going()

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
