"""Where the device that shows a code is looked for, and what a yes is of."""

from __future__ import annotations

import asyncio
import socket
import time
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from tests.node.circles import identity

from hhd.base.errors import RefusedError
from hhd.node import meeting as meeting_module
from hhd.node.answers.pairing import PairingStep
from hhd.node.dialling import Place
from hhd.node.meeting import Meeting
from hhd.node.pairing import Question
from hhd.transports import sockets
from hhd.transports.link import LinkError, Why
from hhd_protocol.ids import DeviceId
from hhd_protocol.statements import Role


class Peers(SimpleNamespace):
    """Links of a device that listens at port 4711, where nobody answers."""

    dialled: list[Any]

    async def listening(self) -> int:
        return 4711

    async def dial_stranger(self, place: Any) -> Any:
        self.dialled.append(place)
        raise LinkError(Why.UNREACHABLE, "Nobody answers.")


@pytest.mark.parametrize(
    ("host", "here"),
    [("127.0.0.1:4711", True), ("localhost:4711", True), ("127.0.0.1:4712", False), ("192.0.2.1:4711", False)],
)
def test_the_address_of_this_device_itself_is_not_dialled(host: str, here: bool) -> None:
    async def go() -> None:
        peers: Any = Peers(dialled=[], serve=lambda *_: None, pairing_wanted=lambda _: None, connected=frozenset)
        pairing: Any = SimpleNamespace(is_open=False)

        async def name() -> str:
            return "laptop"

        with pytest.raises(RefusedError) as told:
            async for _ in Meeting(peers=peers, pairing=pairing, name=name)._with("1234-5671", host):
                pass
        assert ("is this device itself" in str(told.value), peers.dialled == []) == (here, here)

    asyncio.run(go())


def test_a_name_whose_second_address_is_of_this_device_is_not_dialled(monkeypatch: pytest.MonkeyPatch) -> None:
    async def go() -> None:
        peers: Any = Peers(dialled=[], serve=lambda *_: None)
        meeting = Meeting(peers=peers, pairing=SimpleNamespace(is_open=False), name=None)  # type: ignore[arg-type]

        async def found(host: str, port: int) -> list[Any]:
            return [(socket.AF_INET, 0, 0, "", (one, 0)) for one in ("192.0.2.1", "127.0.0.1")]

        monkeypatch.setattr(sockets, "found", found)
        assert await meeting._is_here(Place("two.example", 4711))
        assert not await meeting._is_here(Place("two.example", 4712))

    asyncio.run(go())


def test_a_yes_to_words_that_are_asked_about_no_more_is_no_yes_to_others() -> None:
    async def go() -> None:
        peers: Any = Peers(dialled=[], serve=lambda *_: None, pairing_wanted=lambda _: None)
        meeting = Meeting(peers=peers, pairing=SimpleNamespace(is_open=False), name=None)  # type: ignore[arg-type]
        answer: Any = meeting.verbs()["pair_answer"].act

        def question(*words: str) -> Question:
            return Question(
                words=words, other=DeviceId(bytes(32)), name="desktop", role=Role.FULL, introducing=True, others=0
            )

        with meeting._one_at_a_time() as steps:
            late = asyncio.ensure_future(meeting.agrees(question("acid", "acorn", "actor")))
            await steps.get()
        assert not await late
        with meeting._one_at_a_time() as steps:
            asked = asyncio.ensure_future(meeting.agrees(question("adult", "agent", "album")))
            await steps.get()
            assert not await answer(yes=True, words=("acid", "acorn", "actor")) and not asked.done()
            assert await answer(yes=True, words=("adult", "agent", "album")) and await asked

    asyncio.run(go())


def test_what_came_in_the_moment_of_a_look_is_told_and_not_that_nobody_typed_the_code() -> None:
    came = PairingStep(kind="done", device="some device", name="desktop", role="full")

    class Late(asyncio.Queue[Any]):
        """Something is put in just when the first one who waits gives up."""

        async def get(self) -> Any:
            if not late.done():
                late.set_result(None)
                self.put_nowait(came)
                raise TimeoutError
            return await super().get()

    async def go() -> None:
        nonlocal late
        late = asyncio.get_running_loop().create_future()
        peers: Any = Peers(dialled=[], serve=lambda *_: None)
        meeting = Meeting(peers=peers, pairing=SimpleNamespace(is_open=False), name=None)  # type: ignore[arg-type]
        assert await meeting._next_shown(Late()) == came
        with mock.patch.object(meeting_module, "LOOK_SECONDS", 0), pytest.raises(RefusedError, match="Nobody typed"):
            await meeting._next_shown(asyncio.Queue())

    late: asyncio.Future[None]
    asyncio.run(go())


def test_a_code_lives_for_its_minutes_whatever_becomes_of_the_date(monkeypatch: pytest.MonkeyPatch) -> None:
    from hhd.app import peering

    _, meeting, _ = peering.parts(identity("laptop"))
    pairing = meeting._pairing
    pairing.open("laptop")
    left_ms, real = pairing.left_ms, time.time_ns
    for hours in (24, -24):
        monkeypatch.setattr(time, "time_ns", lambda hours=hours: real() + hours * 3_600_000_000_000)
        assert pairing.is_open and abs(pairing.left_ms - left_ms) < 3_600_000
