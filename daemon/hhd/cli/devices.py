"""The commands `hhd devices ...`: which devices are yours, and what they may do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hhd.app import devices, peering
from hhd.base.errors import RefusedError
from hhd.base.text import short
from hhd.cli import flows, telling
from hhd.cli.agreeing import agreed
from hhd.cli.options import JSON

if TYPE_CHECKING:
    from hhd.node.answers.device import Device
    from hhd.node.answers.group import Gathering, Grouped
    from hhd.node.answers.peers import Peer

NAME_CHARS = 80


@click.group("devices", invoke_without_command=True)
@JSON
@click.pass_context
def command(context: click.Context, as_json: bool) -> None:
    """List your devices, and say what another one may do for this one."""
    if context.invoked_subcommand is not None:
        return
    found = devices.gathering()
    around = {peer.id: peer for peer in peering.peers_now()}
    now = devices.syncings()
    if as_json:
        telling.as_object(found, peers=list(around.values()), sync=now)
        return
    joined = {one.id for one in found.members if one.joined}
    stand = {flow.device: flows.lines(flow, now, joined=flow.device in joined) for flow in now.flows}
    stand[next((one.id for one in found.members if one.here), "")] = flows.here(now)
    lines = [
        line
        for one in found.members
        for line in (*_lines(one, around.get(one.id)), *(f"    {more.strip()}" for more in stand.get(one.id, ())))
    ]
    refusing = [telling.device(telling_of(one)) for one in found.members if one.id in around and around[one.id].refuses]
    telling.lines([*lines, *_besides(found), *telling.refused(refusing)])


@command.command("allow")
@click.argument("name")
@click.argument("right", type=click.Choice(["approve"]))
@click.option("--no", "no", is_flag=True, help="Take the right away again.")
@JSON
def allow(name: str, right: str, no: bool, as_json: bool) -> None:
    """Let the device NAME approve what sessions on this device ask for.

    Each device gives this right for itself; a device that was unpaired and paired again has to be given it again.
    """
    done = devices.allow(name, not no)
    if as_json:
        telling.as_object(done)
        return
    may = "may approve for this device now" if done.after else "may not approve for this device any more"
    telling.lines([f"{telling.device(done.device)} {may}.", f"    its id: {done.device.id}"])


@command.command("refound")
@click.option("--yes", is_flag=True, help="Do not ask.")
@JSON
def refound(yes: bool, as_json: bool) -> None:
    """Begin your group of devices anew, of this device alone.

    For when no full member is left, or to leave a group. What your other devices did until now stays; they are members
    no more for this one, and have to be paired with it again.
    """
    if not yes and not as_json:
        found = devices.gathering()
        others = [telling.device(telling_of(one)) for one in found.members if not one.here]
        if others:
            telling.lines([f"These are put out: {', '.join(others)}."])
        if not agreed("Begin anew, of this device alone?", as_json=as_json):
            raise RefusedError("Nobody agreed, so nothing was changed; --yes does it without asking.")
    done = devices.refound()
    if as_json:
        telling.as_object(done)
        return
    left = ", ".join(telling.device(one) for one in done.left)
    telling.lines(
        [
            "This device is the only one of its group now." + (f" It left: {left}." if left else ""),
            "Pair the others with it again: hhd pair",
        ]
    )


def telling_of(one: Grouped) -> Device:
    """A member as any device is told."""
    from hhd.node.answers.device import Device

    return Device(id=one.id, name=one.name, here=one.here)


def _lines(one: Grouped, peer: Peer | None) -> list[str]:
    said = [one.role]
    if peer is not None and peer.linked:
        said.append(f"linked at {short(peer.address, NAME_CHARS)}")
    elif peer is not None:
        said.append(telling.linked_last(peer.seen_ms, peer.ago_ms))
    if one.approves and not one.here:
        said.append("may approve for this device")
    if one.added_by is not None:
        said.append(f"added by {telling.device(one.added_by)} {telling.when(one.at_ms)}")
    if not one.joined:
        said.append("has not said yet that it joined: pair it again if it does not know")
    return [f"{telling.device(telling_of(one))}  {', '.join(said)}", f"    {one.id}"]


def _besides(found: Gathering) -> list[str]:
    said = []
    if found.out:
        said.append(
            "This device was put out of its group. Pair it again with hhd pair, or begin anew: hhd devices refound"
        )
    elif len(found.members) == 1:
        said.append("It has no other devices; hhd pair adds one.")
    if found.former:
        said.append(f"Put out: {', '.join(telling.device(one) for one in found.former)}.")
    if found.fallen:
        names = ", ".join(telling.device(one) for one in found.fallen)
        said.append(f"Added by a device that was put out, unseen by who did that: {names}. Pair those that are yours.")
    return said
