"""A terminal at a session that runs in the daemon: shows what happens, puts what is asked, passes on what is typed.

The session does not need it: it can leave at any moment, and come back. So all it holds is what is on the screen: the
question that is open, the line that is being typed, and the place in the transcript from which to go on.
"""

from __future__ import annotations

import contextlib
import enum
import select
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from hhd.base.dialogue import Decision, Dialogue, Read, dialogue
from hhd.base.errors import Exit, RefusedError
from hhd.base.text import short, visible
from hhd.cli.hand import Hand
from hhd.cli.lines import columns
from hhd.cli.paint import Ink
from hhd.cli.screen import Row, Screen, terminal_columns
from hhd.cli.telling import brief
from hhd.cli.wakeups import Wakeups
from hhd_protocol import live

if TYPE_CHECKING:
    from hhd.node.attending import Attending, Told

RETURN_SECONDS = 15.0
"""In which a daemon that ended while somebody was attached is expected back: an upgrade starts the next one at once."""

_LOOK_SECONDS = 0.05
KEYS_CHARS = 512
"""Of a line that is typed, as much as another terminal has room for."""
_WORDS_CHARS = 200
_PROMPT = "> "


class How(enum.Enum):
    """Why a terminal left: the session rests, or goes on without it; or the daemon ended and none came."""

    RESTED = "rested"
    DETACHED = "detached"
    GONE = "gone"


@dataclass(frozen=True, kw_only=True)
class Left:
    """How a terminal left, and what it knew of the session then."""

    how: How
    state: live.State | None
    spent: live.Spent
    asked: bool
    """It waits for a person."""


class View(Protocol):
    """What shows a session."""

    def joined(self, attached: live.Attached) -> None:
        """Which session it is; again after each time that the connection was lost."""

    def emitted_at(self, event: live.Emitted) -> None:
        """More of the transcript, each byte once."""

    def happened(self, event: live.Event) -> None:
        """Anything else."""

    def notice(self, sentence: str) -> None:
        """Something of this terminal's own."""


@dataclass(kw_only=True)
class _Asked:
    """What waits for a line: a question and how far it is put, or words."""

    id: str
    prompt: str
    status: int = 0
    """Of a command that leaves it unanswered."""
    question: live.Question | None = None
    asking: Dialogue | None = None


class Watch:
    """Watches by `end` until there is nothing to watch, or somebody leaves.

    `hand`: who may answer; None if nobody may, then it goes on while the session rests. `pauses`: Ctrl-C pauses the
    session, as it does in the foreground; else it leaves it alone.
    """

    def __init__(
        self, end: Attending, *, view: View, screen: Screen, wakeups: Wakeups, hand: Hand | None, pauses: bool
    ) -> None:
        self._end, self._view, self._screen, self._wakeups, self._hand = end, view, screen, wakeups, hand
        self._pauses, self._pausing = pauses, False
        self._state: live.State | None = None
        self._spent = live.Spent(calls=0, tokens=0)
        self._asked: _Asked | None = None
        self._saying: list[str] = []
        self._elsewhere: dict[str, str] = {}
        self._line = ""
        self._left: How | None = None

    def watch(self) -> Left:
        """Attach, unless that was done, and watch. Raises UserError: what the daemon says instead of attaching."""
        from hhd.node.attending import Over

        try:
            while self._left is None:
                self._draw()
                for one in self._ready():
                    if one is self._end:
                        try:
                            self._hear()
                        except Over:
                            self._return()
                    elif one is self._wakeups:
                        self._signals()
                    elif self._left is None:
                        self._typed()
                self._rest()
        finally:
            with contextlib.suppress(OSError):  # A terminal that is closed.
                self._screen.erase()
                self._screen.end_line()
        return Left(how=self._left, state=self._state, spent=self._spent, asked=self._asked is not None)

    def _ready(self) -> Sequence[Attending | Wakeups | Hand]:
        if self._end.unread:
            return [self._end]
        sources: list[Attending | Wakeups | Hand] = [self._end, self._wakeups]
        hand = self._hand
        if hand is not None and hand.has_line and (hand.terminal or self._asked is not None):
            return [hand]
        if hand is not None and hand.waits(asked=self._asked is not None):
            sources.append(hand)
        return select.select(sources, [], [])[0]

    # What the daemon says

    def _hear(self) -> None:
        for event in self._end.arrived():
            match event:
                case live.Attached():
                    self._view.joined(event)
                case live.Emitted():
                    if event.piece:
                        self._view.emitted_at(event)
                case live.Question():
                    self._view.happened(event)
                    self._ask(event)
                case live.Listening():
                    self._view.happened(event)
                    self._listen(event)
                case live.Settled():
                    self._view.happened(event)
                    self._settled(event)
                case live.State():
                    self._view.happened(event)
                    if event.name == "running" and event.status:  # Not by the daemon, which hears nothing of it.
                        raise RefusedError(f"{event.sentence} Nothing was changed.")
                    self._state = event
                case live.Keys():
                    self._elsewhere.pop(event.by, None)
                    if event.line and not self._mine(event.by):
                        self._elsewhere[event.by] = event.line
                case live.Spent():
                    self._spent = event
                    self._view.happened(event)
                case live.Words() | live.Notice() | live.Said() | live.Missed():
                    self._view.happened(event)
                case told:
                    self._told(told)

    def _told(self, told: Told) -> None:
        from hhd.node.answers.driven import Counted, Heard, Rested

        if told.verb == "say" and self._saying:
            words = self._saying.pop(0)
            if told.error is not None:
                self._view.notice(f"{told.error} Not said: {short(words, _WORDS_CHARS)}")
        match told.answer:
            case Heard(how="steering"):
                self._view.notice(f"it hears this at its next step: {short(words, _WORDS_CHARS)}")
            case Counted(counted=False, by=by):
                self._view.notice(f"answered before, {by}" if by else "it does not ask that any more")
            case Rested(state=name, sentence=sentence):
                if self._state is None or self._state.name == "running":
                    self._state = live.State(name=name, sentence=sentence, ways=(), effect="", status=0)
                self._left = How.RESTED
        if told.error is not None and told.verb == "pause":
            raise told.error
        if told.error is not None and told.verb == "answer":
            self._view.notice(str(told.error))

    def _mine(self, by: str) -> bool:
        return self._end.attached is not None and by == self._end.attached.by

    # What is asked

    def _ask(self, question: live.Question) -> None:
        if self._hand is None or (self._asked is not None and self._asked.id == question.id):
            return
        asking = dialogue([visible(page) for page in question.pages], always=visible(question.always, one_line=True))
        self._asked = _Asked(id=question.id, prompt="", question=question, asking=asking)
        self._put(None)

    def _put(self, line: str | None) -> None:
        """Go on with the question that is open, after `line`."""
        asked = self._asked
        assert asked is not None and asked.asking is not None and asked.question is not None
        self._screen.end_line()
        try:
            step = asked.asking.send(line)
            while not isinstance(step, Read):
                self._screen.write(step.text)
                step = asked.asking.send(None)
            asked.prompt = step.prompt
            self._show_prompt()
        except StopIteration as done:
            self._asked = None
            decision: Decision | None = done.value
            if decision is None:  # Whoever puts it off, or is not there, leaves; it stays asked.
                self._leave_waiting("It needs your yes before it runs.", status=int(Exit.REFUSED))
            else:
                self._end.answer(asked.question, shown=decision.seen, choice=decision.choice, message=decision.message)
                self._state = None

    def _leave_waiting(self, sentence: str, *, status: int) -> None:
        """Leave without an answer; what is asked stays asked, of others who are there, and of who comes later."""
        name = brief(self._end.name)
        ways = (f"hhd approve {name}, or hhd deny {name}",) if status == Exit.REFUSED else ()
        self._asked = None
        self._state = live.State(name="waiting", sentence=sentence, ways=ways, effect="", status=status)
        self._left = How.RESTED

    def _listen(self, listening: live.Listening) -> None:
        if self._hand is None or (self._asked is not None and self._asked.id == listening.id):
            return
        status = 0 if listening.why in ("next", "prompt", "") else int(Exit.UNEXPECTED)
        self._asked = _Asked(id=listening.id, prompt=_PROMPT, status=status)
        if listening.why not in ("next", ""):
            self._screen.line(visible(listening.prompt))
        self._screen.end_line()
        self._show_prompt()

    def _show_prompt(self) -> None:
        """A prompt that is not part of the row, or too long for it, is written once."""
        if self._asked is None or self._hand is None:
            return
        if self._hand.editor is None:
            self._screen.write(self._asked.prompt, Ink.PERSON)
        elif columns(self._asked.prompt) > terminal_columns(self._screen.target) // 2:
            self._screen.line(self._asked.prompt.rstrip(), Ink.PERSON)
            self._asked.prompt = _PROMPT

    def _settled(self, event: live.Settled) -> None:
        if self._asked is None or self._asked.id != event.id:
            return
        if self._asked.question is not None and self._hand is not None and self._hand.editor is not None:
            self._hand.editor.clear()  # A letter for a question that is answered is no word to the session.
        self._asked = None
        if event.word:
            self._state = None  # It goes on with that.
        if event.by and not self._mine(event.by):
            self._view.notice(f"answered: {event.word or 'no longer asked'}, {event.by}")

    # What a person does

    def _typed(self) -> None:
        hand = self._hand
        assert hand is not None
        if not hand.has_line:
            hand.read()
        while hand.has_line and self._left is None and (hand.terminal or self._asked is not None):
            self._take(hand.line())
        if hand.editor is not None and hand.editor.text != self._line and self._left is None:
            self._line = hand.editor.text
            self._end.keys(self._line if len(self._line) <= KEYS_CHARS else f"…{self._line[-KEYS_CHARS:]}")

    def _take(self, line: str | None) -> None:
        hand, asked = self._hand, self._asked
        assert hand is not None
        if line is None and hand.terminal:
            self._left = How.DETACHED
        elif asked is None:
            if line is not None and line.strip():
                self._say(line)
        else:
            self._record(asked, line)
            if asked.asking is not None:
                self._put(line)
            elif line is None:
                self._leave_waiting("It waits for your words.", status=asked.status)
            elif line.strip():
                self._say(line)
                self._asked, self._state = None, None
            else:
                self._show_prompt()

    def _record(self, asked: _Asked, line: str | None) -> None:
        """Let what was typed stand on the screen, if it does not already."""
        assert self._hand is not None
        if self._hand.editor is not None:
            if asked.asking is not None:
                self._screen.line(f"{asked.prompt}{visible(line or '')}")
        elif self._hand.terminal:
            self._screen.at_line_start = True
        else:
            self._screen.write(f"{visible(line or '')}\n")

    def _say(self, words: str) -> None:
        self._saying.append(words)
        self._end.say(words)

    def _signals(self) -> None:
        for number in self._wakeups.taken():
            if number == signal.SIGINT and self._pauses:
                if not self._pausing:
                    self._pausing = True
                    self._end.pause()
            elif number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                self._left = How.DETACHED
            elif number == signal.SIGTSTP:
                self._screen.erase()
                self._stopped()
            elif number == signal.SIGCONT and self._hand is not None:
                self._hand.take()

    def _stopped(self) -> None:
        if self._hand is not None:
            self._hand.give_back()
        self._wakeups.stop()
        if self._hand is not None:
            self._hand.take()

    # How it ends

    def _rest(self) -> None:
        """Leave where the session rests and nothing is asked that somebody here could answer."""
        if self._left is not None or self._asked is not None or self._saying or self._state is None:
            return
        if self._state.name == "finished" or (self._state.name != "running" and self._hand is not None):
            self._left = How.RESTED

    def _return(self) -> None:
        """Wait for the next daemon and attach anew, from the byte where this one left off."""
        from hhd.node.attending import Over

        for words in self._saying:
            self._view.notice(f"whether this was said is not known: {short(words, _WORDS_CHARS)}")
        before = self._state
        self._saying, self._asked, self._state, self._elsewhere = [], None, None, {}
        end, said = time.monotonic() + RETURN_SECONDS, False
        while self._left is None:
            try:
                if self._end.attach() and self._joined(end):
                    self._view.notice("attached again")
                    return
            except Over:
                pass
            except RefusedError:
                if before is None or before.name != "ended":
                    raise
                self._state, self._left = before, How.RESTED  # That it was removed was the last thing that was told.
                return
            if not said:  # One that has only forgotten the session says so at once.
                self._view.notice("the daemon has ended; waiting for the next one")
                said = True
            if time.monotonic() > end:
                self._left = How.GONE
                return
            if select.select([self._wakeups], [], [], _LOOK_SECONDS)[0]:
                self._signals_alone()

    def _joined(self, end: float) -> bool:
        """Whether the daemon says which session it is, before it ends as well."""
        while self._end.attached is None:
            if not self._end.unread and not select.select([self._end], [], [], max(0.0, end - time.monotonic()))[0]:
                return False
            self._hear()
        return True

    def _signals_alone(self) -> None:
        """With nobody to tell, every wish to stop is one to leave."""
        if set(self._wakeups.taken()) & {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}:
            self._left = How.DETACHED

    def _draw(self) -> None:
        editor = None if self._hand is None else self._hand.editor
        if editor is None:
            return
        prompt = self._asked.prompt if self._asked is not None else _PROMPT if editor.text else ""
        typed = next(reversed(self._elsewhere.values()), "")
        self._screen.row = Row(prompt=prompt, text=editor.text, cursor=editor.cursor, elsewhere=typed)
        self._screen.draw()
