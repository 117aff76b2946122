"""The command `hhd show`."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from hhd.app import peering, sessions
from hhd.base.text import short, visible
from hhd.cli import telling
from hhd.cli.options import JSON, SESSION

if TYPE_CHECKING:
    from hhd.node.answers.device import Device


@click.command("show")
@SESSION
@click.option("--head", help="Another head than the main one, by its name or id, or the begin of one.")
@click.option("--full", is_flag=True, help="Show outputs and summaries whole.")
@JSON
def command(session: str, head: str | None, full: bool, as_json: bool) -> None:
    """Show where SESSION stands, and its conversation.

    SESSION is its title or id, or the begin of one.
    """
    from hhd.cli.conversation import Conversation, events
    from hhd.cli.paint import Paper

    with sessions.control() as control:
        found = control.show(session, head=head)
        said = control.transcript(session, head=head)
        if as_json:
            telling.as_object(found, events=[_event(line) for line in events(said)])
            return
        owner = f"owned by {telling.device(found.owner)}" + (f" (token {found.token})" if found.token else "")
        state = telling.state(found.state, found.waiting)
        told = [
            f"{telling.title(found.title)}  {telling.brief(found.session)}"
            + ("  (archived)" if found.archived else ""),
            f"  {state}; {owner}; {telling.count(found.turns, 'turn')}; {telling.when(found.at_ms)}",
        ]
        if found.folder:
            told.append(f"  last worked in {short(found.folder, telling.NOTE_CHARS)}")
        if not found.owner.here:
            told.append(f"  {_where(found.owner)}; see it live with: hhd attach {telling.brief(found.session)}")
        if found.head is not None:
            told.append(f"  shown at {telling.brief(found.head)}")
        if found.heads > 1:
            told.append(f"  {found.heads} heads compete; see: hhd heads {telling.brief(found.session)}")
        if found.handed is not None:
            told.append(f"  since it was handed on between this device and {telling.device(found.handed)}:")
            told += [f"    {visible(note, one_line=True)}" for note in found.notes]
        if found.suspects:
            places = telling.count(found.suspects, "place")
            told.append(
                f"  credentials in {places}, it seems; see: hhd workspace findings {telling.brief(found.session)}"
            )
        telling.lines([*told, ""])
        rendered = Conversation(paper=Paper.of(sys.stdout), whole=full)
        for line in events(said):
            rendered.show(line)


def _where(owner: Device) -> str:
    """Where a session of another device runs, and whether that can be reached."""
    linked = any(one.id == owner.id and one.linked for one in peering.peers_now())
    return f"it runs on {telling.device(owner)}, which is {'connected' if linked else 'not connected now'}"


def _event(line: bytes) -> object:
    """A line of a transcript as JSON, or as text if it is none."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return line.decode("utf-8", "backslashreplace")
