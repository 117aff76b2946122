"""A controller lists what full members tell it, live; who keeps sealed bytes alone is told why nothing is listed."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, cast
from unittest import mock

import pytest
from tests.e2e.lab import needs_agent
from tests.node.relay.relayed import Desk, Home, home, role, run, until
from tests.node.two import Device

from hhd.base.errors import RefusedError
from hhd.node import findings, listing, no_sessions
from hhd.node.listed import Overview, State
from hhd.node.relay import listing as relay_listing
from hhd.node.relay.listing import CHANNEL, Lister, Told
from hhd.node.sync.wishes import Wishes
from hhd.node.verbs import Verbs
from hhd.transports.link import Channel, Link
from hhd_protocol import relay
from hhd_protocol.ids import DeviceId, SessionId
from hhd_protocol.limits import RELAY_ROWS_MAX
from hhd_protocol.statements import Role

pytestmark = needs_agent


class Controller:
    """One who types at the laptop, which is a controller and keeps nothing."""

    def __init__(self, house: Home, two: list[Device]) -> None:
        self.desk: Desk = house.desk("laptop")
        self.keeper = two[0].me.id
        relays = self.desk.relays
        relays.keeps, relays.controls = lambda: False, lambda: True
        relays.lister = Lister(peers=self.desk, keepers=lambda: [self.keeper], called=self.called)
        empty = Overview([], {}, two[1].me.id)
        verbs = Verbs(opened=self.desk.opened, overview=lambda *_: empty, lanes=self.desk.lanes)
        verbs.elsewhere = relays
        self.verbs = verbs.verbs()

    async def called(self) -> dict[DeviceId, str]:
        return {self.keeper: "desktop"}

    async def ls(self, query: str = "", *, with_archived: bool = False) -> Overview:
        asked = self.verbs["sessions"].act(query=query, with_archived=with_archived, exact=False)
        return Overview.of(cast(Any, await asked))

    async def show(self, name: str) -> tuple[Any, bytes]:
        shown = await self.verbs["show"].act(name=name, head=None)
        parts = cast(AsyncIterator[bytes], self.verbs["transcript"].act(name=name, head=None))
        return shown, b"".join([part async for part in parts])


def test_a_controller_lists_and_shows_what_a_full_member_tells_it_and_keeps_nothing(
    two: list[Device], asking: SessionId
) -> None:
    role(two, Role.CONTROLLER)

    async def go() -> None:
        async with home(two) as house:
            desktop, alice = house.desk("desktop"), Controller(house, two)
            found = await alice.ls()
            (one,) = found.sessions
            here = two[0].control.show(asking.hex())
            assert (one.id, one.title, one.owner, one.state.value) == (asking, here.title, two[0].me.id, here.state)
            assert (one.turns, one.at_ms, one.folder) == (here.turns, here.at_ms, here.folder)
            assert found.told == "As desktop says now." and found.names[two[0].me.id[:16]] == "desktop"
            shown, said = await alice.show(here.title[:4])
            assert (shown.session, shown.state, shown.owner.name) == (asking.hex(), here.state, "desktop")
            assert said == two[0].transcript(asking)
            await desktop.start(asking)
            two[0].control.rename(asking.hex(), "called otherwise")
            assert (await alice.ls("other")).sessions[0].title == "called otherwise", "it is asked for each time"
            two[0].control.archive(asking.hex())
            assert (await alice.ls()).archived == 1 and len((await alice.ls(with_archived=True)).sessions) == 1
            two[0].control.archive(asking.hex(), undo=True)

            suspicious = two[0].create()
            assert len((await alice.ls()).sessions) == 2
            assert findings.of_text(two[0].store, suspicious, 0, b"AKIA" + b"QWERTYUIOPASDFGH" + b" aws_secret")
            assert [one.id for one in (await alice.ls()).sessions] == [asking], "what is held back is not told of"
            Wishes(two[0].me.id).follow(two[0].store, asking, two[1].me.id, False)
            nothing = await alice.ls()
            assert nothing.sessions == [] and nothing.told == "As desktop says now."
            Wishes(two[0].me.id).follow(two[0].store, asking, two[1].me.id, True)
            with pytest.raises(RefusedError, match="no session"):
                await alice.desk.relays.away("no session is called so" * 300)
            with pytest.raises(RefusedError, match=r"no session 'nonsense' here\. As desktop says now\."):
                await alice.show("nonsense")

            house.cut("laptop", "desktop")
            gone = await alice.ls()
            assert gone.sessions == []
            assert gone.told == "This device keeps no sessions and asks those that do: desktop is not connected now."
            assert two[1].store.sessions() == []

    run(go())


def test_who_only_stores_is_told_of_none_and_why_and_nonsense_costs_the_link(
    two: list[Device], asking: SessionId
) -> None:
    role(two, Role.CONTROLLER)

    async def go() -> None:
        async with home(two) as house:
            desktop, alice = house.desk("desktop"), Controller(house, two)
            assert len((await alice.ls()).sessions) == 1, "a controller is"
            role(two, Role.STORE_ONLY)
            assert (await alice.ls()).sessions == []
            lister = alice.desk.relays.lister
            assert lister is not None and (await lister.told()).by == ()
            wrong: list[Any] = []

            async def says(channel: Channel, link: Link) -> None:
                asked: Any = relay.decode_message((await channel.receive()) or b"")
                await channel.send(relay.encode_message(wrong[0](asked.id)))

            row = relay.Row(
                session=b"s" * 32, title="\x1b[2Jt", program="", state=State.PAUSED.value, waiting="", owner=b"o" * 32,
                token=1, heads=1, archived=False, at_ms=1, turns=0, folder="",
            )  # fmt: skip
            desktop.handlers[CHANNEL] = says
            for made, cut in (
                (lambda id: relay.Rows(id=id, rows=(row,), left_out=3), False),
                (lambda id: relay.Rows(id=b"x" * 16, rows=(), left_out=0), True),
                (lambda id: relay.Rows(id=id, rows=(row, row), left_out=0), True),
                (lambda id: relay.Rows(id=id, rows=(_in(row, "asleep"),), left_out=0), True),
            ):
                await until(lambda: alice.desk.link(two[0].me.id) is not None)
                link = alice.desk.link(two[0].me.id)
                assert link is not None
                wrong[:] = [made]
                found = await alice.ls()
                assert (link.error is not None) is cut and len(found.sessions) == (not cut)
                if cut:
                    await house.link("laptop", "desktop")
                else:
                    assert "\x1b" not in found.sessions[0].title and "3 more are left out" in found.told

    run(go())
    other = two[1]
    for now, word in ((Role.STORE_ONLY, "store-only"), (Role.CONTROLLER, "is a controller")):
        role(two, now)
        other.group.take(two[0].group.records())
        assert word in no_sessions.why(other.store, other.me) and no_sessions.why(two[0].store, two[0].me) == ""
        with pytest.raises(RefusedError, match=word):
            other.control.show("parser")


def test_a_session_that_no_row_can_tell_of_is_counted_and_costs_no_link_and_a_list_holds_nobody_up(
    two: list[Device], asking: SessionId
) -> None:
    role(two, Role.CONTROLLER)
    store, others = two[0].store, [two[0].create() for _ in range(3)]
    listing.change(store, others[0], owner=DeviceId(b""), at_ms=2**52)

    async def go() -> None:
        async with home(two) as house:
            desktop, alice, looked = house.desk("desktop"), Controller(house, two), threading.Event()
            look = desktop.relays._lanes.looking.begin(looked.wait)  # That a peer may be at a session, say.
            try:
                found = await alice.ls()
            finally:
                looked.set()
                await look
            assert {one.id for one in found.sessions} == {asking, *others[1:]}
            assert found.told == "As desktop says now. 1 more is left out."
            link = alice.desk.link(two[0].me.id)
            assert link is not None and link.error is None and desktop.broken == []

    run(go())
    listing.change(store, others[0], owner=two[0].me.id)
    whole = relay_listing.rows_for(two[0].control, two[1].me.id, ())
    assert (len(whole.rows), whole.left_out) == (4, 0), "the positive control"
    room = sum(len(relay.encode_message(replace(whole, rows=(one,)))) for one in whole.rows[:2])
    for bound in ("RELAY_ROWS_MAX", 2), ("ROOM_BYTES", room):
        with (
            mock.patch.object(relay_listing, *bound),
            mock.patch.object(relay_listing, "_row", side_effect=relay_listing._row) as made,
        ):
            rows = relay_listing.rows_for(two[0].control, two[1].me.id, ())
        assert (len(rows.rows), rows.left_out) == (2, 2) and made.call_count <= 3, "what does not fit is not made"


def _in(row: relay.Row, state: str) -> relay.Row:
    return relay.Row(**{**{name: getattr(row, name) for name in row.__dataclass_fields__}, "state": state})


def test_of_what_several_tell_the_owner_counts_and_else_the_newest() -> None:
    from hhd.node.relay.listing import _merged

    def row(at_ms: int, title: str) -> relay.Row:
        return relay.Row(
            session=b"s" * 32, title=title, program="", state="paused", waiting="", owner=b"o" * 32, token=1, heads=1,
            archived=False, at_ms=at_ms, turns=0, folder="",
        )  # fmt: skip

    owner, one, other = (DeviceId(letter * 32) for letter in (b"o", b"a", b"b"))
    told = [(one, row(5, "newest")), (owner, row(1, "owner")), (other, row(3, "older"))]
    for turn in range(3):
        assert [each.title for each in _merged(told[turn:] + told[:turn])] == ["owner"]
        others = [each for each in told[turn:] + told[:turn] if each[0] != owner]
        assert [each.title for each in _merged(others)] == ["newest"]
    said = Told(sessions=[], by=(one, owner), silent=(other,), names={one: "a", owner: "o", other: "b"})
    assert said.sentence() == "As a, o say now. b cannot be asked now, and may have gone on since."
    assert RELAY_ROWS_MAX == 1000
