"""What went wrong between devices, step by step: each ends with one owner, every line a head, no effect run twice."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.sim.device import Device
from tests.sim.world import World

from hhd_protocol.fencing import View
from hhd_protocol.holding import Refuse, Release, Settle, TakeOver, Why, Word
from hhd_protocol.ids import StatementId, TransferId
from hhd_protocol.statements import Checkpoint, Progress

TRANSFER = TransferId(bytes(16))


@pytest.fixture(params=[False, True], ids=["cheap", "signed"])
def world(request: pytest.FixtureRequest) -> World:
    """Three devices that all know a session of the laptop's, which waits for its second effect; signed or not."""
    world = World(1, devices=3, calm=True, real=request.param)
    laptop = world.list[0]
    until(world, laptop, lambda: laptop.guest.position == 1 and laptop.guest.progress is Progress.ASKED)
    world.settle_down()
    return world


def until(world: World, device: Device, there: Callable[[], bool]) -> None:
    """Drive the session on `device` until it is there; a person is with it."""
    world.person_to(device)
    for _ in range(30):
        if there():
            return
        world.drive(device)
    raise AssertionError(f"{device.name} does not get there")


def start(world: World, device: Device) -> None:
    """The effect that the session waits for runs on `device`."""
    until(world, device, lambda: bool(device.part and device.part.leg and device.part.leg.running))


def answer(world: World, device: Device) -> None:
    """The session on `device` comes one effect further."""
    position = device.guest.position
    until(world, device, lambda: device.guest.position > position)


def ask(world: World, device: Device) -> None:
    until(world, device, lambda: device.guest.progress is Progress.ASKED)


def apart(world: World, *devices: Device) -> None:
    """These have no link to anybody, until `together`."""
    world.cut |= {frozenset((d.id, other.id)) for d in devices for other in world.list if other is not d}
    ids = {device.id for device in devices}
    world.messages = [message for message in world.messages if not {message.source, message.target} & ids]


def together(world: World) -> View:
    """All links are back and everything has settled; the meaning that all devices share."""
    world.heal()
    world.checks.at_the_end()
    alive = next(device for device in world.list if device.part is not None)
    assert alive.part is not None
    return alive.part.known.view


def release(world: World, source: Device, target: Device) -> None:
    outputs = world.wish(source, Release(to=target.id, transfer=TRANSFER))
    assert not any(isinstance(output, Refuse) for output in outputs), outputs


def take_over(world: World, device: Device, head: StatementId | None = None) -> None:
    outputs = world.wish(device, TakeOver(head=head, reason="a person said so"))
    assert not any(isinstance(output, Refuse) for output in outputs), outputs


def view(device: Device) -> View:
    assert device.part is not None
    return device.part.known.view


def head(device: Device) -> StatementId:
    found = view(device).main
    assert found is not None
    return found


def runs(world: World) -> int:
    """How many outward acts there were."""
    return sum(len(runs) for runs in world.checks.runs.values())


def test_two_that_took_over_while_apart_both_went_on_and_one_is_fenced(world: World) -> None:
    laptop, desktop, server = world.list
    world.die(laptop)
    apart(world, desktop, server)
    lines = {}
    for device in (desktop, server):
        take_over(world, device)
        effect = world.signer.effect(1)
        until(world, device, lambda device=device: device.guest.progress is Progress.ASKED)  # type: ignore[misc]
        assert world.may_start(device, effect) is Why.UNCERTAIN, "the laptop may have run it"
        world.wish(device, Settle(effect=effect, word=Word.RAN))
        answer(world, device)
        lines[device.id] = head(device)
    now = together(world)
    assert now.owner in lines
    assert now.heads >= {lines[now.owner]}
    loser = next(device for device in (desktop, server) if device.id != now.owner)
    assert any(_leads_to(world, tip, lines[loser.id]) for tip in now.heads), "its work is a head"
    assert view(loser).token is not None and loser.part is not None and loser.part.may_append() is not None
    world.go_on()
    assert runs(world) >= 3


def _leads_to(world: World, tip: StatementId, checkpoint: StatementId) -> bool:
    at: StatementId | None = tip
    while at is not None:
        if at == checkpoint:
            return True
        found = world.checks.statements[at]
        assert isinstance(found, Checkpoint)
        at = found.parents[0] if found.parents else None
    return False


STAGES = ("ready", "released", "on its way", "received", "taken", "worked on", "acknowledged")


def _handed_over_until(world: World, stage: str) -> None:
    """The laptop hands its session to the desktop, and the world stops at `stage`."""
    laptop, desktop, _ = world.list
    if stage == "ready":
        return
    if stage == "released":
        apart(world, laptop)
    release(world, laptop, desktop)
    if stage in ("released", "on its way"):
        world.messages.clear()
        return
    apart(world, world.list[2])
    world.drain()
    if stage == "received":
        return
    until(world, desktop, lambda: desktop.part is not None and desktop.part.leg is not None)
    if stage == "taken":
        return
    apart(world, desktop)
    answer(world, desktop)
    ask(world, desktop)
    if stage == "acknowledged":
        world.cut.clear()
        world.settle_down()


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("taker", [0, 1, 2], ids=["source", "target", "third"])
def test_a_takeover_at_any_stage_leaves_one_owner(world: World, stage: str, taker: int) -> None:
    _handed_over_until(world, stage)
    device = world.list[taker]
    before = {id: d.disk.tip for id, d in world.devices.items()}
    apart(world, device)
    take_over(world, device)
    now = together(world)
    number = now.token.number if now.token else 0
    assert number >= 2
    assert all(tip is None or tip in world.checks.statements for tip in before.values())
    if stage in ("ready", "acknowledged") or (taker == 1 and stage not in ("released", "on its way")):
        assert now.owner == device.id, "nobody else knew of a higher token"
    world.go_on()


@pytest.mark.parametrize("taken", [False, True], ids=["never received", "worked on"])
@pytest.mark.parametrize("taker", [0, 2], ids=["source", "third"])
def test_a_target_that_dies_for_ever_after_the_release_is_taken_over_from(
    world: World, taken: bool, taker: int
) -> None:
    desktop = world.list[1]
    _handed_over_until(world, "worked on" if taken else "on its way")
    world.die(desktop)
    now = together(world)
    assert now.owner == desktop.id, "the release counts, taken or not"
    survivor = world.list[taker]
    world.person_to(survivor)
    assert survivor.part is not None and survivor.part.may_append() is not None
    take_over(world, survivor)
    effect = world.signer.effect(1)
    until(world, survivor, lambda: survivor.part is not None and survivor.part.leg is not None)
    assert world.may_start(survivor, effect) is Why.UNCERTAIN, "the dead target may have run it"
    assert together(world).owner == survivor.id
    world.go_on()


def test_a_revoked_owner_stops_and_its_session_is_taken_over(world: World) -> None:
    laptop, desktop, server = world.list
    start(world, laptop)
    world.drain()
    apart(world, laptop)
    world.revoke(desktop, laptop)
    world.drain()
    assert view(server).owner == laptop.id and view(server).owner_revoked
    answer(world, laptop)
    later = head(laptop)
    take_over(world, desktop)
    ran = runs(world)
    now = together(world)
    assert now.owner == desktop.id and laptop.id in now.revoked
    assert later in now.sealed and later not in now.heads, "kept, shown, and no head"
    assert laptop.part is not None and laptop.part.may_append() is not None
    assert world.may_start(laptop, world.signer.effect(2)) is Why.REVOKED
    assert runs(world) == ran
    world.go_on()


def test_a_restored_owner_reads_until_it_takes_over(world: World) -> None:
    laptop, desktop, _ = world.list
    backup = laptop.disk.copy()
    start(world, laptop)
    world.drain()
    world.restore(laptop, backup)
    world.person_to(laptop)
    world.settle_down()
    effect = world.signer.effect(1)
    assert laptop.part is not None
    refusal = laptop.part.may_append()
    assert refusal is not None and refusal.why is Why.ROLLED_BACK
    take_over(world, laptop)
    until(world, laptop, lambda: laptop.part is not None and laptop.part.leg is not None)
    assert world.may_start(laptop, effect) is Why.UNCERTAIN
    assert together(world).owner == laptop.id
    assert view(desktop).rolled_back == frozenset(), "what it forgot was known here, so its chain goes on from there"
    world.go_on()


def test_a_restored_source_releases_twice_and_one_target_owns(world: World) -> None:
    laptop, desktop, server = world.list
    backup = laptop.disk.copy()
    apart(world, laptop)
    release(world, laptop, desktop)
    world.cut.clear()
    world.exchange()
    world.restore(laptop, backup)
    apart(world, laptop)
    world.person_to(laptop)
    release(world, laptop, server)
    now = together(world)
    assert now.owner in (desktop.id, server.id)
    assert now.rolled_back == {laptop.id}
    owner = world.devices[now.owner]
    until(world, owner, lambda: owner.part is not None and owner.part.leg is not None)
    assert world.may_start(owner, world.signer.effect(1)) is Why.UNCERTAIN, "the other one may have run it"
    world.go_on()


def test_a_target_that_was_restored_after_it_took_is_told_that_it_had(world: World) -> None:
    _, desktop, server = world.list
    world.die(server)
    backup = desktop.disk.copy()
    _handed_over_until(world, "received")
    assert desktop.disk.statements.keys() > backup.statements.keys()
    world.drain()
    apart(world, desktop)
    start(world, desktop)
    world.restore(desktop, backup)
    world.cut.clear()
    world.ask_everybody(desktop)
    world.drain()
    assert desktop.part is not None and desktop.part.denied
    refusal = desktop.part.may_append()
    assert refusal is not None and refusal.why is Why.ROLLED_BACK
    take_over(world, desktop)
    until(world, desktop, lambda: desktop.part is not None and desktop.part.leg is not None)
    assert world.may_start(desktop, world.signer.effect(1)) is Why.UNCERTAIN
    assert together(world).owner == desktop.id
    world.go_on()


def test_who_wakes_alone_waits_and_says_why(world: World) -> None:
    laptop, *others = world.list
    effect = world.signer.effect(1)
    for other in others:
        world.crash(other)
    world.crash(laptop)
    world.start(laptop)
    until_loaded = lambda: laptop.part is not None and laptop.part.leg is not None  # noqa: E731
    until(world, laptop, until_loaded)
    laptop.attached = False
    assert world.may_start(laptop, effect) is Why.WAKING
    world.now_ms += 11_000
    assert world.may_start(laptop, effect) is Why.ALONE
    world.start(others[0])
    assert world.may_start(laptop, effect) is Why.ALONE, "a link is no answer"
    world.ask_everybody(laptop)
    world.drain()
    assert world.may_start(laptop, effect) is None


def test_who_wakes_to_a_takeover_is_fenced_before_it_acts(world: World) -> None:
    laptop, desktop, _ = world.list
    apart(world, laptop)
    take_over(world, desktop)
    world.now_ms += 60_000
    laptop.wake(world.now_ms)
    assert world.may_start(laptop, world.signer.effect(1)) is Why.WAKING
    ran = runs(world)
    assert together(world).owner == desktop.id
    assert runs(world) == ran
    until(world, desktop, lambda: desktop.part is not None and desktop.part.leg is not None)
    assert world.may_start(desktop, world.signer.effect(1)) is None, "the laptop's closing checkpoint said: not started"
    world.go_on()
