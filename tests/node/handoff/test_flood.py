"""A member that says on and on what nobody asked it for takes up so much and no more, and the others do not feel it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest
from tests.e2e.lab import needs_agent
from tests.node.driven import GLOB
from tests.node.handoff.handing import House, Site, known_to_all, run, unasked, until
from tests.node.two import Device

from hhd.base import log
from hhd.node.answers.handoff import Moved
from hhd.node.handoff import again as handoff_again
from hhd.node.handoff import journal as handoff_journal
from hhd.node.handoff import steps as handoff_steps
from hhd.node.handoff.ways import CHANNEL
from hhd.store.store import Store
from hhd.transports.link import Channel, Link
from hhd_protocol import handoff, limits
from hhd_protocol.handoff import (
    Abort,
    AnyAside,
    AnyMessage,
    Ask,
    Begun,
    LoadedThere,
    Needs,
    Offer,
    Please,
    Prepare,
    RefuseOffer,
    Told,
)
from hhd_protocol.ids import CheckpointId, SessionId, StatementId, TransferId

pytestmark = needs_agent

FLOOD = 120
"""Of each kind of message: more than is kept."""


@pytest.fixture
def three(tmp_path: Path) -> Iterator[list[Device]]:
    with unasked(tmp_path, [GLOB], "laptop", "desktop", "tower", look=0.05) as made:
        yield made


def fresh() -> dict[str, TransferId | SessionId]:
    """Ids that nobody knows."""
    return {"transfer": TransferId(os.urandom(16)), "session": SessionId(StatementId(os.urandom(32)))}


def flood(offer: Offer, please: Please) -> Iterator[AnyMessage | AnyAside]:
    """All that a member may say of handoffs that do not exist, again and again."""
    head = CheckpointId(StatementId(bytes(32)))
    for _ in range(FLOOD):
        yield replace(offer, **fresh())
        yield replace(please, **fresh())
        yield Prepare(**fresh(), head=head)  # type: ignore[arg-type]
        yield LoadedThere(**fresh(), head=head)  # type: ignore[arg-type]
        yield Ask(**fresh())  # type: ignore[arg-type]
        yield Begun(**fresh(), runs=True, notes=("x" * 4000,))  # type: ignore[arg-type]


class Heard:
    """What the hostile device is answered."""

    def __init__(self, site: Site) -> None:
        self.refused, self.told = list[RefuseOffer](), list[Told]()
        site.handlers[CHANNEL] = self.serve

    async def serve(self, channel: Channel, link: Link) -> None:
        while (raw := await channel.receive()) is not None:
            match handoff.decode_message(raw):
                case RefuseOffer() as refused:
                    self.refused.append(refused)
                case Told() as told:
                    self.told.append(told)


@pytest.mark.long
def test_a_member_that_floods_takes_up_so_much_and_a_handoff_of_another_one_is_done_meanwhile(
    three: list[Device], monkeypatch: pytest.MonkeyPatch
) -> None:
    laptop, desktop, tower = three
    session, other = known_to_all(three), known_to_all(three)
    noted, most, tasks = list[str](), 0, 0
    monkeypatch.setattr(log, "warn", lambda event, **_: noted.append(event))

    async def go(home: House) -> None:
        site, heard = home.sites["desktop"], Heard(home.sites["tower"])
        goings = site.handoffs.turns.goings
        offer = handoff_steps.offer_of(laptop.store, laptop.me, other, TransferId(bytes(16)), None)
        please = Please(transfer=offer.transfer, session=other, to=tower.me.id, deadline_ms=60_000)
        link = home.sites["tower"].link(desktop.me.id)
        assert link is not None
        channel, before = await link.open(CHANNEL), len(asyncio.all_tasks())

        async def floods() -> None:
            nonlocal most, tasks
            for message in flood(offer, please):
                await channel.send(handoff.encode_message(message))
                most = max(most, sum(one.peer == tower.me.id for one in goings.values()))
                tasks = max(tasks, len(asyncio.all_tasks()) - before)

        async def honest() -> Moved:
            await until(lambda: len(goings) >= limits.HANDOFF_CHECKED_MAX)
            return (await home.sites["laptop"].transfer(session, "desktop"))[-1]

        moving = asyncio.create_task(honest())
        await floods()
        assert (await moving).status == 0, "the positive control: amid the flood"
        assert most <= limits.HANDOFF_OFFERED_MAX + 1 and tasks < 200
        await until(lambda: len(heard.refused) == FLOOD - limits.HANDOFF_OFFERED_MAX)
        assert "on their way there already" in heard.refused[-1].why
        assert noted.count("handoffs_too_many") == 1
        assert site.link(tower.me.id) is not None
        with mock.patch.object(handoff_again, "DEADLINE_SECONDS", 0.1):  # Nobody has said a word of them since.
            await until(lambda: not any(one.peer == tower.me.id for one in goings.values()))

    run(three, go)


def test_what_a_device_offered_and_gave_up_is_forgotten_but_for_the_last(three: list[Device]) -> None:
    _, desktop, _ = three
    head, token = CheckpointId(StatementId(bytes(32))), StatementId(bytes(32))
    session, needs = SessionId(StatementId(bytes(32))), Needs(size_bytes=1, memory_bytes=1)
    most = 2 * limits.HANDOFF_GIVEN_UP_KEPT
    first = TransferId((1).to_bytes(16, "big"))

    def journals(store: Store) -> int:
        return len(list(handoff_journal.every(store)))

    async def go(home: House) -> None:
        Heard(home.sites["laptop"])
        link = home.sites["laptop"].link(desktop.me.id)
        assert link is not None
        channel, counts = await link.open(CHANNEL), list[int]()
        for number in range(1, 2 * most):
            transfer = TransferId(number.to_bytes(16, "big"))
            await channel.send(
                handoff.encode_message(
                    Offer(transfer=transfer, session=session, hhd="1", token=token, head=head, needs=needs)
                )
            )
            await until(lambda transfer=transfer: handoff_journal.last(desktop.store, transfer) is not None)  # type: ignore[misc]
            if number == 1:
                assert journals(desktop.store) == 1, "the positive control"
            await channel.send(handoff.encode_message(Abort(transfer=transfer, session=session, why="no")))
            await until(lambda: not home.sites["desktop"].handoffs.turns.goings)
            counts.append(journals(desktop.store))
        assert max(counts) < most and counts[-1] >= limits.HANDOFF_GIVEN_UP_KEPT
        assert handoff_journal.last(desktop.store, first) is None and not handoff_journal.unfinished(desktop.store)

    with (
        mock.patch.object(limits, "HANDOFF_GIVEN_UP_KEPT", 2),
        mock.patch.object(handoff_journal, "HANDOFF_GIVEN_UP_KEPT", 2),
    ):
        most = 4
        run(three, go)
