"""Lists for a device that keeps no sessions: told live by the full members that are linked, and kept nowhere.

    told = await Lister(...).told()

A controller may be at every session of its person's that is not held back from it, and holds nothing of any: its
`hhd ls` and `hhd show` are what others say, made safe, with who said it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from hhd.base import log
from hhd.base.errors import RefusedError, UserError
from hhd.node import listing, naming, overview
from hhd.node.answers.device import Device
from hhd.node.answers.shown import Shown
from hhd.node.control import ControlService
from hhd.node.listed import Listed, Overview, State
from hhd.node.relay import safe as relay_safe
from hhd.node.relay.ports import Elsewhere, Peering
from hhd.node.sync.wishes import Wishes
from hhd.transports.link import Channel, Link, LinkError
from hhd_protocol import live, relay
from hhd_protocol.crypto import device_text
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import DeviceId, SessionId, StatementId
from hhd_protocol.limits import RELAY_MESSAGE_BYTES_MAX, RELAY_ROWS_MAX

CHANNEL = "list"
SECONDS_MAX = 10.0
"""For a device to say which sessions it knows."""
ROOM_BYTES = RELAY_MESSAGE_BYTES_MAX - 4096
"""For the rows of one message, each with the names of its fields."""


# Telling


def rows_for(control: ControlService, peer: DeviceId, at_work: Collection[SessionId]) -> relay.Rows:
    """Return the sessions that `peer` may be at, for a message without its id; `at_work`: known to run here.

    What a row cannot say is counted as left out: a session whose owner is not known here, above all.
    """
    store = control.store
    sessions = sorted(listing.listed(store), key=lambda one: one.at_ms, reverse=True)
    revisions = {one.id: store.arrived.revision(one.id) for one in sessions}
    kept_back = Wishes(control.me.id).left_out(store, peer, revisions)
    may = [one for one in sessions if one.id not in kept_back]
    rows, room = list[relay.Row](), ROOM_BYTES
    for one in may:
        if len(rows) >= RELAY_ROWS_MAX:
            break
        row = _row(listing.now(one, store), running=one.id in at_work)
        try:
            room -= len(relay.encode_message(relay.Rows(id=bytes(relay.ID_BYTES), rows=(row,), left_out=0)))
        except FormatError:  # Raised later, it would be taken for a fault of who asked, and cost it the link.
            continue
        if room < 0:
            break
        rows.append(row)
    return relay.Rows(id=bytes(relay.ID_BYTES), rows=tuple(rows), left_out=len(may) - len(rows))


def _row(one: Listed, *, running: bool) -> relay.Row:
    state = State.RUNNING if running and one.state is State.PAUSED else one.state
    return relay.Row(
        session=one.id,
        title=one.title,
        program=one.program,
        state=state.value,
        waiting=one.waiting,
        owner=one.owner,
        token=one.token,
        heads=one.heads_shown,
        archived=one.archived,
        at_ms=one.at_ms,
        turns=one.turns,
        folder=one.folder,
    )


# Asking


class Told(NamedTuple):
    """What was heard: sessions, newest first; how many more there are at least; who told of them, and who could not."""

    sessions: list[Listed]
    left_out: int = 0
    by: tuple[DeviceId, ...] = ()
    silent: tuple[DeviceId, ...] = ()
    names: Mapping[DeviceId, str] = MappingProxyType({})

    def sentence(self) -> str:
        """Who told of them, in words; safe to print but for names."""
        by, silent = self._called(self.by), self._called(self.silent)
        if not by:
            away = (
                f"{silent} {'is' if len(self.silent) == 1 else 'are'} not connected now" if silent else "there is none"
            )
            return f"This device keeps no sessions and asks those that do: {away}."
        said = f"As {by} {'says' if len(self.by) == 1 else 'say'} now."
        if silent:
            said += f" {silent} cannot be asked now, and may have gone on since."
        more = f"{self.left_out} more {'is' if self.left_out == 1 else 'are'} left out."
        return f"{said} {more}" if self.left_out else said

    def _called(self, devices: tuple[DeviceId, ...]) -> str:
        return ", ".join(self.names.get(one) or device_text(one)[:9] for one in devices)

    def overview(self, me: DeviceId, query: str, *, with_archived: bool) -> Overview:
        """The same as a list."""
        names = {device[:16]: name for device, name in self.names.items() if name}
        found = Overview(list(self.sessions), names, me, told=self.sentence())
        return overview.meant(found, query.casefold(), with_archived)

    def shown(self, name: str) -> Shown:
        """Where the session that `name` means stands; raises UsageError, RefusedError with who told."""
        things = [naming.Named(one.id.hex(), (one.title,)) for one in self.sessions]
        try:
            found = self.sessions[naming.chosen(name, things, "session")]
        except RefusedError as error:
            error.args = (f"{error} {self.sentence()}",)
            raise
        return Shown(
            session=found.id.hex(),
            title=found.title,
            program=found.program,
            state=found.state.value,
            waiting=found.waiting,
            owner=Device(id=device_text(found.owner), name=self.names.get(found.owner, ""), here=False),
            token=found.token,
            head=None,
            heads=found.heads,
            archived=found.archived,
            at_ms=found.at_ms,
            turns=found.turns,
            folder=found.folder,
            notes=(),
        )


@dataclass(frozen=True, kw_only=True)
class Lister:
    """Asks `keepers`, the members that keep sessions, as far as they are linked."""

    peers: Peering
    keepers: Callable[[], Collection[DeviceId]]
    called: Callable[[], Awaitable[Mapping[DeviceId, str]]]

    async def told(self) -> Told:
        """Ask all of them."""
        names = await self.called()
        keepers = sorted(self.keepers())
        answers = await asyncio.gather(*map(self._of, keepers))
        by = [(device, answer) for device, answer in zip(keepers, answers, strict=True) if answer is not None]
        return Told(
            sessions=_merged((device, one) for device, answer in by for one in answer.rows),
            left_out=max((answer.left_out for _, answer in by), default=0),
            by=tuple(device for device, _ in by),
            silent=tuple(sorted(set(keepers) - {device for device, _ in by})),
            names=names,
        )

    async def _of(self, device: DeviceId) -> relay.Rows | None:
        """What one of them says; None where it says nothing."""
        link = self.peers.link(device)
        if link is None:
            return None
        try:
            async with asyncio.timeout(SECONDS_MAX):
                return await self._asked(link)
        except (TimeoutError, LinkError, UserError):
            return None
        except FormatError as fault:
            log.fault("peer_broke_rules", fault, device=device_text(device), address=link.remote)
            link.cut("the rules were broken")
            return None

    @staticmethod
    async def _asked(link: Link) -> relay.Rows | None:
        ask = relay.List(id=os.urandom(relay.ID_BYTES))
        channel: Channel = await link.open(CHANNEL, urgent=True)
        try:
            await channel.send(relay.encode_message(ask))
            raw = await channel.receive()
        finally:
            await channel.close()
        if raw is None:
            return None  # It is older.
        said = relay.decode_message(raw)
        if not isinstance(said, relay.Rows | relay.Refused) or said.id != ask.id:
            raise FormatError("something is answered that was not asked")
        if isinstance(said, relay.Refused):
            return None
        if len({one.session for one in said.rows}) != len(said.rows):
            raise FormatError("a session is told of twice")
        for one in said.rows:
            if one.state not in _STATES:
                raise FormatError("a session is in a state that there is none of")
        return said


async def transcript(elsewhere: Elsewhere, session: str) -> AsyncIterator[bytes]:
    """Yield what a session said so far, as the device tells where it runs; nothing where that is out of reach."""
    try:
        async with aclosing(elsewhere.attach(session, 0, "")) as events:
            async for event in events:
                if isinstance(event, live.Emitted):
                    yield event.piece
                elif not isinstance(event, live.Attached | live.Notice):
                    return  # How it is comes after all that it said.
    except RefusedError:
        return


_STATES = {state.value for state in State}


def _merged(rows: Iterable[tuple[DeviceId, relay.Row]]) -> list[Listed]:
    """One row a session: what its owner says of it, else the newest."""
    best: dict[bytes, tuple[tuple[bool, int], relay.Row]] = {}
    for device, row in rows:
        rank = (row.owner == device, row.at_ms)
        if row.session not in best or rank > best[row.session][0]:
            best[row.session] = rank, row
    found = [_listed(row) for _, row in best.values()]
    return sorted(found, key=lambda one: one.at_ms, reverse=True)


def _listed(row: relay.Row) -> Listed:
    line = relay_safe.sentence
    return Listed(
        id=SessionId(StatementId(row.session)),
        title=line(row.title),
        program=line(row.program),
        state=State(row.state),
        owner=DeviceId(row.owner),
        token=row.token,
        heads=row.heads,
        archived=row.archived,
        at_ms=row.at_ms,
        turns=row.turns,
        waiting=line(row.waiting),
        folder=line(row.folder),
    )
