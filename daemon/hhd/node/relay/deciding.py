"""What a session at another device waits with, shown to a person here and decided: `hhd approve`, `deny`, `settle`.

A question is watched as by one who is attached, and answered while it is: what is answered is what was shown, and the
session goes on there. A word on what may have run has a channel of its own (`spec/relay.md`). Whether this device may
is for the other one to say, each time.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, Protocol

from hhd.base import log
from hhd.base.errors import RefusedError, UncertainError, UsageError
from hhd.base.text import visible
from hhd.node.answers.decided import Asked, Decided, Uncertain
from hhd.node.answers.driven import Counted
from hhd.node.pending import effect_number
from hhd.node.relay import asking as relay_asking
from hhd.node.relay import safe as relay_safe
from hhd.node.relay.ports import Home, Peering
from hhd.transports.link import Channel, Link, LinkError
from hhd_protocol import live, relay
from hhd_protocol.crypto import device_text
from hhd_protocol.errors import FormatError
from hhd_protocol.limits import RELAY_TEXT_BYTES_MAX

CHANNEL = "settle"
_DIGEST = re.compile("[0-9A-Fa-f]{64}")
ASKED_SECONDS = 20.0
"""For the other device to say what its session waits with."""


class Relaying(Protocol):
    """What is needed of the part that this belongs to (`hhd.node.relay.relays`)."""

    peers: Peering

    def attach(self, name: str, position: int | None, by: str) -> AsyncGenerator[live.Event, None]:
        """What happens in a session, wherever it runs."""

    async def answer(self, away: Home, id: str, *, shown: bytes, choice: str, message: str, by: str) -> Counted:
        """Answer what it asks."""

    async def out_of_reach(self, home: Home) -> RefusedError:
        """What is said where there is no link to its home."""


async def decided(relays: Relaying, away: Home, verb: str, given: Mapping[str, Any]) -> Asked | Decided | Uncertain:
    """Do what `verb` of `ControlService` does, with the arguments it has there, at the home of a session."""
    number = effect_number(given.get("effect"))
    if given.get("folder") is not None:
        raise RefusedError(
            f"Session {away.shown} is {away.name}'s to run, so its folder is chosen there; nothing was decided."
        )
    match verb:
        case "asked":
            return await _question(relays, away, number)
        case "decide":
            choice = "yes" if given["agreed"] else "no"
            return await _answered(relays, away, number, str(given["shown"]).lower(), choice, given.get("message", ""))
        case "uncertain":
            return await _doubt(relays, away, number)
    return await _settled(relays, away, number, given["how"], given.get("output", ""), given.get("shown"))


# Questions


async def _question(relays: Relaying, away: Home, effect: int | None) -> Asked:
    async with aclosing(_asking(relays, away, effect)) as asking:
        async for asked, _ in asking:
            return asked
    raise _nothing(away, "")


async def _answered(relays: Relaying, away: Home, effect: int | None, shown: str, choice: str, message: str) -> Decided:
    async with aclosing(_asking(relays, away, effect)) as asking:
        async for asked, id in asking:
            if asked.shown != shown:
                raise RefusedError(
                    f"What {_name(away)} waits with is not the text that was shown, so the answer does not count; look "
                    "at it again."
                )
            seen = bytes.fromhex(shown)
            counted = await relays.answer(away, id, shown=seen, choice=choice, message=message, by="")
            if not counted.counted:
                raise RefusedError(f"{counted.by or 'Somebody'} answered it before; nothing was decided by this.")
            word = "approved" if choice == "yes" else "denied"
            return Decided(session=asked.session, effect=asked.effect, op="", word=word, at=away.name)
    raise _nothing(away, "")


async def _asking(relays: Relaying, away: Home, effect: int | None) -> AsyncGenerator[tuple[Asked, str], None]:
    """Yield what the session asks, with the name of that, while it is watched; raises RefusedError for nothing."""
    async with aclosing(relays.attach(away.session.hex(), None, "")) as events:
        until = asyncio.get_running_loop().time() + ASKED_SECONDS
        while True:
            try:
                async with asyncio.timeout_at(until):
                    event = await anext(events, None)
            except TimeoutError:
                raise RefusedError(f"{away.name} does not say what it waits with; nothing was decided.") from None
            match event:
                case live.Question(id=id, pages=pages, shown=shown):
                    number = _number(away, id)
                    if effect is not None and number != effect:
                        raise RefusedError(f"{_name(away)} waits with effect {number}, not with {effect}.")
                    found = away.session.hex()
                    yield Asked(session=found, effect=number, op="", pages=pages, shown=shown.hex()), id
                    return
                case live.Listening():
                    raise RefusedError(f"{_name(away)} waits for your words, and asks nothing: hhd send {away.shown}")
                case live.State(sentence=sentence):  # What it asks would have been said before that.
                    raise _nothing(away, sentence)
                case None:
                    raise _nothing(away, "")


def _number(away: Home, id: str) -> int:
    """The number of the effect that a question is about; its home chose the name of that."""
    try:
        number = effect_number(id.partition(".")[0])
    except UsageError:
        number = None
    if number is None:
        raise RefusedError(
            f"What {_name(away)} asks can be answered by one who is attached only: hhd attach {away.shown}"
        )
    return number


def _nothing(away: Home, sentence: str) -> RefusedError:
    return RefusedError(f"{_name(away)} waits with nothing that needs a yes. {sentence}".rstrip())


def _name(away: Home) -> str:
    return f"Session {away.shown} on {away.name}"


# What may have run


async def _doubt(relays: Relaying, away: Home, effect: int | None) -> Uncertain:
    said = await _asked(relays, away, relay.Doubt(id=os.urandom(16), session=away.session, effect=effect))
    assert isinstance(said, relay.Doubted)
    return Uncertain(
        session=away.session.hex(), effect=said.effect, op=relay_safe.sentence(said.op), text=visible(said.text)
    )


async def _settled(
    relays: Relaying, away: Home, effect: int | None, word: str, output: str, shown: str | None
) -> Decided:
    if effect is None or shown is None or not _DIGEST.fullmatch(shown):
        raise UsageError("What may have run on another device is shown before a word on it counts.")
    if word not in relay.SETTLED or len(output.encode("utf-8", "replace")) > RELAY_TEXT_BYTES_MAX:
        raise UsageError(
            f"Such a word cannot be given to another device; output is at most {RELAY_TEXT_BYTES_MAX} bytes."
        )
    ask = relay.Settle(
        id=os.urandom(16),
        session=away.session,
        effect=effect,
        shown=bytes.fromhex(shown),
        word=word,
        output=output,
        by="",
    )
    said = await _asked(relays, away, ask)
    assert isinstance(said, relay.Settled)
    op = relay_safe.sentence(said.op)
    return Decided(session=away.session.hex(), effect=said.effect, op=op, word=word, at=away.name)


async def _asked(relays: Relaying, away: Home, ask: relay.Doubt | relay.Settle) -> relay.Doubted | relay.Settled:
    """Ask the home on a channel of its own; raises what it says instead, UsageError for what cannot be asked."""
    try:
        raw = relay.encode_message(ask)
    except FormatError as fault:  # Of a person here: no peer broke a rule.
        raise UsageError(f"This cannot be said to another device: {fault}.") from None
    link = await relays.peers.coming(away.device)
    if link is None:
        raise await relays.out_of_reach(away)
    settles = isinstance(ask, relay.Settle)
    sent = False
    try:
        async with asyncio.timeout(relay_asking.REPLY_SECONDS):
            channel = await link.open(CHANNEL, urgent=True)
            sent = settles
            said = await _said(channel, link, ask, raw)
    except (TimeoutError, LinkError):
        if sent:
            raise UncertainError(
                f"{away.name} is not connected any more, so this may have been noted, or not; see it with: hhd settle "
                f"{away.shown}"
            ) from None
        raise RefusedError(f"{away.name} is not connected any more; nothing was decided.") from None
    if said is None:
        raise RefusedError(f"The hhd on {away.name} is older, and hears a word on what may have run only there.")
    if isinstance(said, relay.Refused):
        raise relay_asking.error(said)
    return said


async def _said(
    channel: Channel, link: Link, ask: relay.Doubt | relay.Settle, raw: bytes
) -> relay.Doubted | relay.Settled | relay.Refused | None:
    """What the home answers to `ask`, sent as `raw`; None for nothing. Who answers something else loses its link."""
    try:
        await channel.send(raw)
        answer = await channel.receive()
        if answer is None:
            return None
        said = relay.decode_message(answer)
        wanted = relay.Settled if isinstance(ask, relay.Settle) else relay.Doubted
        if not isinstance(said, wanted | relay.Refused) or said.id != ask.id:
            raise FormatError("something is answered that was not asked")
        if isinstance(said, relay.Doubted) and visible(said.text) != said.text:
            raise FormatError("what may have run is not safe to print")
        if not isinstance(said, relay.Refused) and ask.effect not in (None, said.effect):
            raise FormatError("another effect is answered for than was asked about")
        return said
    except FormatError as fault:
        log.fault("peer_broke_rules", fault, device=device_text(link.peer), address=link.remote)
        link.cut("the rules were broken")
        return None
    finally:
        await channel.close()
