"""The verbs on sessions that run in the daemon, as `hhd.node.runs` asks them (`spec/live.md`)."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

from hhd.base import log
from hhd.base.errors import RefusedError, UsageError, UserError
from hhd.base.text import visible
from hhd.node import pair, should_run
from hhd.node.answers.decided import Decided, Uncertain
from hhd.node.answers.driven import Begun, Counted, Heard, Rested
from hhd.node.attached_stream import events_for
from hhd.node.control import ControlService
from hhd.node.going import WORDS_WAITING_CHARS_MAX, WORDS_WAITING_MAX, Going, Word
from hhd.node.handoff import held_back
from hhd.node.listed import Listed
from hhd.node.listed import State as ListedState
from hhd.node.live import named
from hhd.node.naming import ID_SHOWN
from hhd.node.relay.ports import Home
from hhd.node.service import Verb
from hhd.node.standing_now import standing_now
from hhd_protocol import live
from hhd_protocol.ids import SessionId, StatementId
from hhd_protocol.limits import LIVE_LINE_BYTES_MAX, LIVE_TEXT_BYTES_MAX

if TYPE_CHECKING:
    from hhd.node.workers import Workers

HEARD_SECONDS = 10.0
"""For words to be in a session that waited for them."""


class RunVerbs:
    """What a person may ask of `workers`. All methods are for the loop's thread."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers

    def table(self) -> dict[str, Verb]:
        """The verbs by their names."""
        return {
            "begin": Verb(self.begin, changes=True),
            "go_on": Verb(self.go_on, changes=True),
            "attach": Verb(self.attach, changes=False),
            "say": Verb(self.say, changes=True),
            "answer": Verb(self.answer, changes=True),
            "pause": Verb(self.pause, changes=True),
            "keys": Verb(self.keys, changes=False),
            "at_work": Verb(self.at_work, changes=False),
        }

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
        _insist_on_words(model, environment, key)
        self._workers.insist_on_going()
        around = None if environment is None else dict(environment)

        def create(control: ControlService) -> SessionId:
            from hhd.node.workbench import Workbench

            return Workbench(store=control.store, me=control.me).create(prompt, folder=folder, once=once)

        session = await self._workers.store.change(create)
        try:
            await self._workers.start(session, None, _absolute(model, folder), around, key=key)
        except UserError as error:
            shown = session.hex()[:ID_SHOWN]
            error.args = (f"{error} Session {shown} was made, and has not begun. Go on with: hhd resume {shown}",)
            raise
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
        _insist_on_words(model, environment, key, settle)
        self._workers.insist_on_going()
        if head is None and (away := await self._away(name)) is not None:
            return await self._resumed_there(away, folder, model, settle)
        session = self._workers.person_at(await self._session(name))
        around = None if environment is None else dict(environment)
        if head is not None:
            chosen = head
            if (going := self._workers.at_hand(session)) is not None and going.worker is not None:
                raise RefusedError("The session runs; pause it first, to go on from another head.")

            def turn(control: ControlService) -> None:
                from hhd.node.workbench import Workbench

                Workbench(store=control.store, me=control.me).turn_to(session, chosen)

            await self._workers.store.change(turn)
        fresh = await self._workers.start(session, folder, _absolute(model, folder), around, key=key, settle=settle)
        return Begun(session=session.hex(), fresh=fresh)

    async def _resumed_there(
        self, away: Home, folder: Path | None, model: str | None, settle: tuple[str, str] | None
    ) -> Begun:
        """Let a session go on at the device that has it; nothing of this one goes along."""
        if settle is not None or folder is not None or model is not None:
            raise RefusedError(
                f"Session {away.shown} is {away.name}'s to run, so its folder and its model are chosen there; nothing "
                f"was changed. A word on what may have run: hhd settle {away.shown}. To have it here first: hhd "
                f"transfer {away.shown} here"
            )
        assert self._workers.elsewhere is not None
        return await self._workers.elsewhere.resume(away)

    async def go_on_here(self, session: SessionId) -> Begun:
        """Let a session of this device go on, as `go_on`."""
        self._workers.insist_on_going()
        return Begun(session=session.hex(), fresh=await self._workers.start(session))

    async def attach(self, name: str, position: int | None = 0, by: str = "") -> AsyncIterator[dict[str, object]]:
        """As `hhd.node.runs.Runs.attach`."""
        elsewhere = self._workers.elsewhere
        if elsewhere is not None:
            events = elsewhere.attach(name, position, by)
        else:
            found = await self.found(name)
            self._workers.attended(self._workers.person_at(found.id))
            events = self.events(found, position, by)
        async with contextlib.aclosing(events) as told:
            async for event in told:
                yield live.encoded(event)  # type: ignore[misc]

    async def events(self, found: Listed, position: int | None, by: str) -> AsyncGenerator[live.Event, None]:
        """What one who is attached here is told of a session."""
        going = self._workers.going(found.id)
        seat = going.audience.sit(by)
        try:
            async for event in events_for(self._workers.store, going, found, seat, position):
                yield event
        finally:
            going.audience.leave(seat)
            if not len(going.audience) and going.worker is not None:
                going.worker.say(pair.Alone())

    async def say(self, name: str, text: str, by: str = "") -> Heard:
        """As `hhd.node.runs.Runs.say`."""
        if not text.strip() or len(text.encode("utf-8", "replace")) > LIVE_TEXT_BYTES_MAX:
            raise UsageError(f"Words are at least one, and at most {LIVE_TEXT_BYTES_MAX // 1024} KiB of text.")
        self._workers.insist_on_going()
        if self._workers.elsewhere is not None and (away := await self._away(name)) is not None:
            return await self._workers.elsewhere.say(away, text, by)
        return await self.say_here(self._workers.person_at(await self._session(name)), text, by)

    async def say_here(self, session: SessionId, text: str, by: str) -> Heard:
        """Say words to a session of this device."""
        if not text.strip():
            raise UsageError("There is nothing to say.")
        self._workers.insist_on_going()
        going = self._workers.going(session)
        by = named(by)
        word = Word(text, asyncio.get_running_loop().create_future())
        chars = len(text) + sum(len(one.text) for one in going.unheard)
        if len(going.unheard) >= WORDS_WAITING_MAX or chars > WORDS_WAITING_CHARS_MAX:
            raise RefusedError("The session has not heard what was said to it before; nothing was said. Wait a little.")
        if going.worker is not None:
            return await self._said(going, word, by)
        found = await self.found(going.session.hex())
        _insist_on_ears(found)
        going.unheard.append(word)
        going.audience.tell(live.Said(by=by, text=text), but=by)
        if found.state is ListedState.WAITING and found.waiting != "input":
            # It needs a yes first; it hears this with what comes of it.
            return Heard(session=session.hex(), how="steering")
        going.settle(by, "words")
        try:
            await self._workers.start(going.session, None, going.chosen_model)
        except BaseException:
            with contextlib.suppress(ValueError):
                going.unheard.remove(word)
            raise
        if found.waiting == "input":
            await self._heard_of(going, word)
        return Heard(session=session.hex(), how="prompt" if found.waiting == "input" else "steering")

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
        self._workers.insist_on_going()
        if self._workers.elsewhere is not None and (away := await self._away(name)) is not None:
            return await self._workers.elsewhere.answer(away, id, shown=shown, choice=choice, message=message, by=by)
        session = self._workers.person_at(await self._session(name))
        return await self.answer_here(session, id, shown, choice, message, by)

    async def answer_here(self, asked: SessionId, id: str, shown: bytes, choice: str, message: str, by: str) -> Counted:
        """Answer a question of a session of this device; an answer counts for the text that it was given to."""
        self._workers.insist_on_going()
        going, by = self._workers.going(asked), named(by)
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
            await self._workers.start(going.session, None, going.chosen_model)
        return Counted(session=session, counted=True, by=by)

    async def pause(self, name: str) -> Rested:
        """As `hhd.node.runs.Runs.pause`."""
        if self._workers.elsewhere is not None and (away := await self._away(name)) is not None:
            return await self._workers.elsewhere.pause(away)
        return await self.pause_here(await self._session(name))

    async def pause_here(self, session: SessionId) -> Rested:
        """Pause a session of this device; a handoff of it that is given up does not have it go on then."""
        _, _, state = await asyncio.gather(
            self._not_held(session), self._workers.rest(session), self._workers.pause(session)
        )
        if state is None:
            state = (await self._workers.store.look(lambda control: standing_now(control, session)))[0]
            if state.name == "running":
                raise RefusedError(f"{state.sentence} Nothing was changed; it is paused there.")
        return Rested(session=session.hex(), state=state.name, sentence=state.sentence)

    async def _not_held(self, session: SessionId) -> None:
        try:
            await self._workers.store.change(lambda control: held_back.drop_session(control.store, session))
        except (UserError, OSError) as error:  # A full disk is no reason not to pause.
            log.fault("pause_not_kept", error, session=session.hex())

    async def at_work(self) -> tuple[str, ...]:
        """As `hhd.node.runs.Runs.at_work`."""
        await self._workers.noted.wait()
        noted = await self._workers.store.look(lambda control: should_run.noted(control.store))
        return tuple(dict.fromkeys(one.hex() for one in (*self._workers.running(), *(one.session for one in noted))))

    def at_work_here(self) -> frozenset[SessionId]:
        """The sessions of this device that run now."""
        return self._workers.at_work

    async def doubt_here(self, session: SessionId, effect: int | None) -> Uncertain:
        """The effect of a session of this device that may have run; raises RefusedError where there is none."""
        self._insist_on_rest(session)
        number = None if effect is None else str(effect)
        return await self._workers.store.look(lambda control: control.uncertain(session.hex(), number))

    async def settle_here(self, session: SessionId, effect: int, shown: bytes, word: str, output: str) -> Decided:
        """Note a person's word on that effect, whose text of the digest `shown` they saw."""

        self._insist_on_rest(session)

        def settle(control: ControlService) -> Decided:
            return control.settle(session.hex(), str(effect), how=word, output=output, shown=shown.hex())

        return await self._workers.store.change(settle)

    async def keys(self, name: str, line: str, by: str) -> bool:
        """As `hhd.node.runs.Runs.keys`."""
        if self._workers.elsewhere is None or not await self._workers.elsewhere.keys(name, line, by):
            await self.keys_here(await self._session(name), line, by)
        return True

    async def keys_here(self, session: SessionId, line: str, by: str) -> None:
        """Show what is typed to all others who are at a session here."""
        going = self._workers.at_hand(session)
        if going is not None and len(going.audience) > 1:
            by, shown = named(by), line.encode("utf-8", "replace")[:LIVE_LINE_BYTES_MAX].decode("utf-8", "ignore")
            going.audience.tell(live.Keys(by=by, line=visible(shown, one_line=True)), but=by)

    def _insist_on_rest(self, session: SessionId) -> None:
        going = self._workers.at_hand(session)
        if going is not None and going.worker is not None:
            shown = session.hex()[:ID_SHOWN]
            raise RefusedError(
                f"Session {shown} is at work now, so nothing of it waits for a word on what may have run."
            )

    # Looking up

    async def _away(self, name: str) -> Home | None:
        """Where a session runs, None where that is here."""
        return None if self._workers.elsewhere is None else await self._workers.elsewhere.away(name)

    async def _session(self, name: str) -> SessionId:
        """The session that `name` means; one that is at hand, by its id, without the store."""
        await self._workers.noted.wait()
        if len(name) == 64:
            with contextlib.suppress(ValueError):
                session = SessionId(StatementId(bytes.fromhex(name)))
                if self._workers.at_hand(session) is not None:
                    return session
        return (await self.found(name)).id

    async def found(self, name: str) -> Listed:
        """The session that `name` means, as lists have it; raises UsageError, RefusedError."""
        from hhd.node import naming

        await self._workers.noted.wait()
        return await self._workers.store.look(lambda control: naming.session(control.store, name))


def _insist_on_words(
    model: str | None,
    environment: tuple[tuple[str, str], ...] | None,
    key: str | None,
    settle: tuple[str, str] | None = None,
) -> None:
    """Raise UsageError where no process could be given one of these: else it would fail in the middle, for no reason
    that is told."""
    if settle is not None:
        from hhd.node.pending import how_settled

        how_settled(settle[0])
    try:
        _ = (model or "").encode()
        pairs = [os.fsencode(one) for pair in environment or () for one in pair]
        sound = b"\0" not in b"".join([*pairs, os.fsencode(key or "")])
    except UnicodeEncodeError:
        sound = False
    if not sound or not all(name and "=" not in name for name, _ in environment or ()):
        raise UsageError("A model, a key or a variable has characters that none can have; nothing was changed.")


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
