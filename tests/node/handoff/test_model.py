"""Sessions handed on ask no model anything: counted at a service that the real SDK talks to."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path
from unittest import mock

from tests.e2e.lab import needs_agent
from tests.loopback.messages_api import call, message, serve, text
from tests.node import two
from tests.node.handoff.handing import Site, house, until

from hhd.node.ended import End
from hhd.node.handoff import steps as handoff_steps
from hhd.node.run import Here
from hhd_protocol.ids import SessionId

pytestmark = needs_agent


class Device(two.Device):
    """A device whose model is a service, asked with its SDK."""

    def here(self) -> Here:
        return replace(super().here(), model="claude-test")


def test_on_its_way_there_and_back_no_model_is_asked_and_the_next_turn_is_one_request(tmp_path: Path) -> None:
    steps = [message(call("bash", command="echo x >> runs"), reason="tool_use"), message(text("Done."))]
    with (
        serve(steps) as service,
        mock.patch.dict(os.environ, {"ANTHROPIC_BASE_URL": service.url, "ANTHROPIC_API_KEY": "k"}),
        mock.patch.object(two, "Device", Device),
        two.devices(tmp_path, [], "laptop", "desktop", rules={"allow": []}) as (laptop, desktop),
    ):
        session = laptop.create()
        assert laptop.go_here(session).end is End.WAITING
        assert len(service.requests) == 1, "the positive control: a turn is one request, and it is counted"
        began: list[str] = []

        async def on_start(site: Site, begun: SessionId) -> None:
            """What a started session does: it runs, and comes to the question that it waits with."""
            assert site.device.go_here(begun).end is End.WAITING
            began.append(site.device.repo.parent.name)

        async def go() -> None:
            async with house([laptop, desktop]) as home:
                home.on_start = on_start
                for source, target in (("laptop", "desktop"), ("desktop", "laptop")):
                    moved = await home.sites[source].transfer(session, target)
                    assert moved[-1].status == 0, moved[-1]
                    transfer = bytes.fromhex(moved[-1].transfer)
                    store = home.sites[target].device.store
                    await until(lambda: handoff_steps.is_opened(store, transfer))  # type: ignore[arg-type]  # noqa: B023

        asyncio.run(go())
        assert began == ["desktop", "laptop"]
        assert len(service.requests) == 1, "no model was asked anything on the way"
        laptop.rules = {"allow": ["bash"]}
        laptop.go_here(session)
        assert len(service.requests) == 2 and (laptop.repo / "runs").read_text() == "x\n"
