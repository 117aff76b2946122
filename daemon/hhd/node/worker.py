"""Drives one session in a process of its own, forked for it, and ends with it.

The main thread runs the session exactly as a terminal does (`hhd.node.run`); what a terminal would show or ask goes to
the daemon. A second thread listens: words and answers wake the main one, and so does a wish to pause, which comes as a
signal, as Ctrl-C would. If the daemon is gone, that is a wish to pause, too. A third says from time to time that this
process still turns.

A person is waited for a while, and then no longer: the session waits just as well without a process, and another one
is forked when words or an answer come.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import signal
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from hhd.base import config
from hhd.base.errors import Exit, UserError
from hhd.effects.approvals import Answer, Choice, Question
from hhd.node import leftovers, opening, pair, recapture, rehearsing, workbench
from hhd.node.captures import Captures
from hhd.node.ended import End, Ended, Settle
from hhd.node.own_turns import OwnTurns
from hhd.node.pair import Over, Start
from hhd.node.refused import AloneError
from hhd.node.rehearsing import Prepared
from hhd.node.run import Here, Run
from hhd.node.stored_session import StoreKeeper
from hhd.runtime.outcomes import StopFlag
from hhd.store.errors import AdvancedError, BusyError
from hhd_protocol import live
from hhd_protocol.ids import SessionId, Sha256, StatementId

T = TypeVar("T")

BEAT_SECONDS = 2.0
"""Between two signs of life: several fit the processor time after which a worker counts as hung."""

LOOK_SECONDS = 0.02
"""Between two looks whether another process let go of the session."""

REST_SECONDS = 1.0
"""Of waiting for a reply, after which the program's memory is given back: putting it back takes some milliseconds."""

WORDS_CHARS = 64 * 1024
"""Of the model's words in one event."""

MODEL_VARIABLES = ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
"""Where a model is and the key for it: they go together, or not at all."""


def main(connected: socket.socket) -> None:
    """Be the worker at this end of the pair: drive the session that the daemon names, and return."""
    end = pair.End(connected)
    messages = end.heard()
    with contextlib.ExitStack() as kept:
        start, bench = next(messages, None), None
        if isinstance(start, pair.Recapture):
            recapture.recaptured(end, start)
            return
        if isinstance(start, pair.Prepare):
            bench = rehearsing.prepared(end, start, kept)
            start = next(messages, None) if bench is not None else None
        if isinstance(start, Start):
            _begun(end, messages, start, bench)


def _begun(end: pair.End, messages: Iterator[pair.ToWorker], start: Start, bench: Prepared | None) -> None:
    """Drive the session to its end, and say what that is; `bench`: what was made ready for it."""
    stop = StopFlag()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())  # Until the run catches it.
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    face = _Face(end, start, stop)
    threading.Thread(target=face.listen_to, args=(messages,), daemon=True, name="hhd listens").start()
    threading.Thread(target=face.beat, daemon=True, name="hhd beats").start()
    try:
        over = _over(_driven(face, start, stop, bench))
    except AloneError as error:
        over = Over(end="alone", status=int(error.exit), effect="", sentence=str(error), ways=())
    except UserError as error:
        busy = isinstance(error, BusyError) and not isinstance(error, AdvancedError)
        over = Over(end="busy" if busy else "failed", status=int(error.exit), effect="", sentence=str(error), ways=())
    except Exception as error:  # noqa: BLE001  The end of this process: what is known of it goes to the person.
        sentence = f"The session's process failed, which is a fault of hhd: {error!r:.500}"
        over = Over(end="failed", status=int(Exit.UNEXPECTED), effect="", sentence=sentence, ways=())
    leftovers.end_children()  # What commands left running in the background ends with them.
    end.say(over)


def _driven(face: _Face, start: Start, stop: StopFlag, ready: Prepared | None) -> Ended:
    if start.config is not None:
        config.hold(start.config)
    environ = dict(os.environ if start.environment is None else start.environment)
    if start.model_environment is not None:
        for name in MODEL_VARIABLES:
            os.environ.pop(name, None)
        os.environ.update(start.model_environment)
    with contextlib.nullcontext(ready.bench) if ready is not None else workbench.opened() as bench:
        bench.store.database.gate = face.writing
        here = None if ready is None else replace(ready.here, environ=environ)
        return _run(bench, face, start, stop, environ, here)


def _run(
    bench: workbench.Workbench,
    face: _Face,
    start: Start,
    stop: StopFlag,
    environ: Mapping[str, str],
    here: Here | None,
) -> Ended:
    with _held(bench, start, face, stop, environ, here) as run:
        face.opened(run)
        return run.go()


@contextlib.contextmanager
def _held(
    bench: workbench.Workbench,
    start: Start,
    face: _Face,
    stop: StopFlag,
    environ: Mapping[str, str],
    here: Here | None,
) -> Iterator[Run]:
    """The session, once no other process has it any more."""
    end = time.monotonic() + start.patience_ms / 1000
    while True:
        stored = opening.stored(
            bench.store,
            bench.me,
            SessionId(StatementId(start.session)),
            folder=None if start.folder is None else Path(start.folder),
            model=start.model,
            face=face,
            stop=stop,
            settle=None if start.settle is None else Settle(how=start.settle[0], output=start.settle[1]),
            environ=environ,
            here=here,
        )
        try:
            run = stored.__enter__()
        except AdvancedError:
            if time.monotonic() > end or stop.is_set:
                raise
            time.sleep(LOOK_SECONDS)
            continue
        break
    with contextlib.ExitStack() as after:
        after.push(stored.__exit__)
        yield run


def _over(ended: Ended) -> Over:
    name = {End.FINISHED: "finished", End.WAITING: "waiting", End.INTERRUPTED: "interrupted"}[ended.end]
    return Over(
        end=name, status=ended.status, effect=ended.effect or "", sentence=ended.sentence, ways=tuple(ended.ways)
    )


class _Face:
    """The daemon as a face and approver of a session (`hhd.node.face`, `hhd.effects.approvals`)."""

    def __init__(self, end: pair.End, start: Start, stop: StopFlag) -> None:
        self._end, self._start, self._stop = end, start, stop
        self._came = threading.Condition()
        self._words = deque(start.words)
        self._answers = {one.id: one for one in start.answers}
        self.turns = OwnTurns(end.say)
        self._left = 0
        """How often the last one who was attached has left."""
        self._waits, self._look, self._look_ahead = False, False, False
        """Whether a person is waited for; whether the folder is to be captured meanwhile, or a capture made ready."""
        self._run: Run | None = None
        self._piece, self._told, self._taken = b"", 0, 0
        self._spent = (-1, -1)
        self._asked_since: float | None = None

    def opened(self, run: Run) -> None:
        """The session is held."""
        self._run = run
        run.approver, run.turn, run.session.on_saved = self, self._computing, self._saved
        run.asking = self._asking
        for grant in self._start.grants:
            run.grants.add(grant)
        run.grants.on_add = lambda grant: self._end.say(pair.Granted(grant=grant))
        self._told = run.session.keeper.standing.transcript_bytes
        standing = run.session.standing
        self._end.say(pair.Opened(folder=str(run.workspace.folder), program=standing.program))
        self._tell_spent()

    # The other threads

    def listen_to(self, messages: Iterator[pair.ToWorker]) -> None:
        """Take what the daemon says, until it is gone: then the session is to pause."""
        for message in messages:
            match message:
                case pair.Say(text=text):
                    with self._came:
                        self._words.append(text)
                        self._came.notify_all()
                case pair.Answer(id=id):
                    with self._came:
                        self._answers[id] = message
                        self._came.notify_all()
                case pair.Turn():
                    self.turns.given(message)
                case pair.Back(writes=writes):
                    self.turns.asked(writes=writes)
                case pair.Alone():
                    with self._came:
                        self._left += 1
                        self._came.notify_all()
                case pair.Look(ahead=True):
                    with self._came:
                        self._look_ahead = self._waits
                        self._came.notify_all()
                case pair.Look():
                    with self._came:
                        self._look = self._waits
                        self._came.notify_all()
                        if not self._waits:
                            self._end.say(pair.Looked())
                case pair.Pause(soft=soft, captures=captures):
                    if captures and (kept := self._captures()) is not None:
                        kept.look_again(leftovers.end_children)
                    self._pause(soft=soft)
        self.turns.end()
        self._pause()

    def _captures(self) -> Captures | None:
        keeper = None if self._run is None else self._run.session.keeper
        return keeper.captures if isinstance(keeper, StoreKeeper) else None

    def _pause(self, *, soft: bool = False) -> None:
        self._stop.set()
        if not soft:
            os.kill(os.getpid(), signal.SIGTERM)
        self.turns.wake()
        with self._came:
            self._came.notify_all()

    def beat(self) -> None:
        """Say from time to time that this process still turns, and give back memory that is long not needed."""
        while True:
            time.sleep(min(BEAT_SECONDS, REST_SECONDS))
            self._end.say(pair.Beat())
            since, run = self._asked_since, self._run
            if since is not None and run is not None and time.monotonic() - since >= REST_SECONDS:
                self._asked_since = None
                self.turns.rest()
                if run.session.drop_guest():
                    gc.collect()
                    _give_back()

    @contextlib.contextmanager
    def _asking(self) -> Iterator[None]:
        """While the model, or a person, is waited for."""
        self._asked_since = time.monotonic()
        try:
            yield
        finally:
            self._asked_since = None

    # What the run tells

    def text(self, piece: str) -> None:
        """The model's words, as they come."""
        for at in range(0, len(piece), WORDS_CHARS):
            self._end.say(live.Words(text=piece[at : at + WORDS_CHARS]))

    def notice(self, sentence: str) -> None:
        """A line of hhd's own."""
        self._end.say(live.Notice(text=sentence))

    def emitted(self, piece: bytes) -> None:
        """Transcript, told once it is durable."""
        self._piece += piece
        self._tell_transcript()

    def _saved(self) -> None:
        """A step is durable."""
        self._tell_transcript()
        if self._taken:
            self._end.say(pair.Heard(count=self._taken))
            self._taken = 0
        assert self._run is not None
        self._end.say(pair.Stepped(intent=self._run.session.keeper.intended))
        self._tell_spent()

    def _tell_transcript(self) -> None:
        assert self._run is not None
        durable = self._run.session.keeper.standing.transcript_bytes
        if self._piece and self._told + len(self._piece) <= durable:
            for at in range(0, len(self._piece), _PIECE_BYTES):
                self._end.say(live.Emitted(position=self._told + at, piece=self._piece[at : at + _PIECE_BYTES]))
            self._told, self._piece = self._told + len(self._piece), b""

    def _tell_spent(self) -> None:
        assert self._run is not None
        spent = self._run.spent
        if (spent.calls, spent.tokens) != self._spent:
            self._spent = spent.calls, spent.tokens
            self._end.say(live.Spent(calls=spent.calls, tokens=spent.tokens))

    # What the run asks

    def ask(self, question: Question) -> Answer | None:
        """The answer of one who is attached; None if none came in time."""
        assert self._run is not None
        entry = self._run.session.standing.journal.pending
        assert entry is not None
        id, left = pair.question_id(entry.index, question.shown), self._left
        always = question.always if question.grant is not None else ""
        if id not in self._answers:
            self._end.say(live.Question(id=id, pages=question.pages, shown=question.shown, always=always))
        answer = self._wait(lambda: self._answers.pop(id, None), left)
        if answer is None or answer.choice not in _CHOICES:
            return None
        choice = Choice(answer.choice)
        if choice is Choice.ALWAYS and question.grant is None:
            choice = Choice.YES
        return Answer(choice=choice, seen=Sha256(answer.shown), message=answer.message.strip())

    def listen(self, prompt: str, why: str) -> str | None:
        """Words of one who is attached; None if none came in time."""
        assert self._run is not None
        entry = self._run.session.standing.journal.pending
        assert entry is not None
        left = self._left
        if not self._words:
            self._end.say(live.Listening(id=f"{entry.index}.input", prompt=prompt, why=why))
        words = self._wait(lambda: self._words.popleft() if self._words else None, left)
        self._taken += words is not None
        return words

    def steering(self) -> list[str]:
        """What was said meanwhile."""
        with self._came:
            words = list(self._words)
            self._words.clear()
        self._taken += len(words)
        return words

    def write(self, text: str) -> None:
        """Not called: questions go to `ask`."""

    def read(self, prompt: str) -> str | None:
        """Not called: questions go to `ask`."""
        return None

    def _wait(self, take: Callable[[], T | None], left_before: int) -> T | None:
        """What `take` gives, once it does; None if nobody is there, or the last who was has left since then."""
        end = time.monotonic() + self._start.linger_ms / 1000
        with self._asking():
            try:
                while True:
                    with self._came:
                        self._waits = True
                        if (found := take()) is not None:
                            return found
                        capture = self._wished()
                        if capture is None:
                            left = end - time.monotonic()
                            if left <= 0 or self._stop.is_set or self._left != left_before:
                                return None
                            self._came.wait(left)
                            continue
                    capture()  # It writes, so it waits for a turn, which the thread that listens brings.
            finally:
                with self._came:
                    self._waits, self._look_ahead = False, False
                    if self._look:  # It goes on, so there is nothing to capture.
                        self._look = False
                        self._end.say(pair.Looked())

    def _wished(self) -> Callable[[], None] | None:
        """The capture that is to be made while a person is waited for; None where none is."""
        if self._look_ahead:
            self._look_ahead = False
            return self._capture_ahead
        if self._look:
            self._look = False
            return self._capture_now
        return None

    def _capture_ahead(self) -> None:
        """Have a capture of the folder ready; the session is as it was, and its next checkpoint may name it."""
        if (captures := self._captures()) is not None:
            captures.ahead()

    def _capture_now(self) -> None:
        """Bring what the last checkpoint says of the folder up to now."""
        assert self._run is not None
        if (captures := self._captures()) is not None:
            captures.look_again()  # Where it looks as before its last capture, that one stands.
        try:
            self._run.session.flush()
        finally:
            self._end.say(pair.Looked())

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Its turn to write to the store."""
        with self.turns.used(writes=True):
            yield

    def _computing(self) -> AbstractContextManager[int]:
        """Its turn to compute: for how many milliseconds, 0 for as long as it likes. To pause it needs none."""
        return self.turns.used(writes=False, needless=lambda: self._stop.is_set)


_PIECE_BYTES = 256 * 1024
_CHOICES = frozenset(choice.value for choice in Choice)


def _give_back() -> None:
    """Give memory that is free back to the system, where its library would keep it for later."""
    if sys.platform == "linux":
        with contextlib.suppress(AttributeError):  # Not the usual library.
            ctypes.CDLL(None).malloc_trim(0)


def forked(connected: socket.socket) -> None:
    """What a process just forked does; it does not return."""
    status = 0
    try:
        leftovers.adopt_orphans()
        main(connected)
    except BaseException as error:  # noqa: BLE001  A process of its own: nothing is above it.
        print(f"hhd: a worker failed: {error!r:.500}", file=sys.stderr, flush=True)  # noqa: T201
        status = 1
    finally:
        os._exit(status)
