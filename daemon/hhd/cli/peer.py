"""The commands `hhd peer ...`: addresses of other devices, where the network does not tell them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hhd.app import peering
from hhd.base.text import visible
from hhd.cli import telling
from hhd.cli.options import JSON

if TYPE_CHECKING:
    from hhd.node.answers.peers import Around, Fixed, Peer


@click.group("peer")
def command() -> None:
    """Fix addresses of your other devices, and see how each is reached.

    Devices on one network find each other by themselves. Where they cannot (a VPN, a network that keeps its guests
    apart), give one of them the other one's address.
    """


@command.command("list")
@JSON
def listed(as_json: bool) -> None:
    """Say which devices are linked, and which addresses are fixed."""
    _tell(peering.around(), as_json)


@command.command("add")
@click.argument("address", metavar="HOST[:PORT]")
@JSON
def add(address: str, as_json: bool) -> None:
    """Look for your devices at an address, too; `hhd peer list` there says which port."""
    _tell(peering.add(address), as_json)


@command.command("remove")
@click.argument("address", metavar="HOST[:PORT]")
@JSON
def remove(address: str, as_json: bool) -> None:
    """Look there no more; a link that there is stays."""
    _tell(peering.remove(address), as_json)


def _tell(around: Around, as_json: bool) -> None:
    if as_json:
        telling.as_object(around)
        return
    lines = [_line(peer) for peer in around.peers]
    if not lines:
        lines = ["This device has no other devices yet; hhd pair makes some known to each other."]
    for one in around.fixed:
        lines.append(f"fixed {visible(one.address, one_line=True)}: {_there(one, around)}")
    lines += telling.refused([_shown(peer.name) or peer.id[:9] for peer in around.peers if peer.refuses])
    if around.listening:
        lines.append(f"Others reach this device at port {around.listening[0].rpartition(':')[2]}.")
    if around.trouble:
        lines.append(f"Devices are not found by themselves: {visible(around.trouble, one_line=True)}.")
    telling.lines(lines)


def _there(one: Fixed, around: Around) -> str:
    if one.device:
        return f"{_shown(one.name) or one.device[:9]} is there"
    if around.peers and all(peer.linked for peer in around.peers):
        return "nobody was looked for there, since all of your devices are linked"
    return "none of your devices was found there" + (f". {visible(one.trouble, one_line=True)}" if one.trouble else "")


def _line(peer: Peer) -> str:
    name = f"{peer.id[:9]}  {_shown(peer.name) or '(no name)'}"
    if peer.linked:
        return f"{name}: linked at {visible(peer.address, one_line=True)}"
    return f"{name}: {telling.linked_last(peer.seen_ms, peer.ago_ms)}" + (
        f". {visible(peer.trouble, one_line=True)}" if peer.trouble else ""
    )


def _shown(name: str) -> str:
    return visible(name, one_line=True)
