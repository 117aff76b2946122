"""How it stands with other devices in lines: what went there, what they lack, what keeps it back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hhd.base.text import short, visible
from hhd.cli import telling

if TYPE_CHECKING:
    from hhd.node.answers.syncing import Flow, Syncings

NAME_CHARS = 72
LIMITS_SHOWN = 4


def here(now: Syncings) -> list[str]:
    """The lines about this device itself."""
    lines = [visible(now.trouble, one_line=True)] if now.trouble else []
    if now.holding:
        lines.append(f"Content is not taken: {visible(now.holding, one_line=True)}.")
    if now.paused:
        lines.append("    hhd sync --resume goes on")
    if now.frugal:
        lines.append(f"Content goes together, twice a minute: {now.frugal}.")
    if now.wanted:
        lines.append(f"{telling.count(now.wanted, 'object')} of others on the way here.")
    return lines


def lines(flow: Flow, now: Syncings, *, joined: bool = True) -> list[str]:
    """The lines about another device; the first is short and says what it lacks.

    `joined`: it has said that it is a member, and what it has.
    """
    said = [_lacks(flow) if joined else "nothing is known yet of what it has"]
    if flow.sent or flow.received:
        said[0] += f", {telling.size(flow.sent or 0)} sent, {telling.size(flow.received or 0)} received"
    if flow.holding:
        said.append(f"takes no content: {visible(flow.holding, one_line=True)}")
    for one in flow.limits[:LIMITS_SHOWN]:
        said.append(f"takes no more of session {telling.brief(one.session)}: {visible(one.why, one_line=True)}")
    if len(flow.limits) > LIMITS_SHOWN:
        said.append(f"takes no more of {len(flow.limits) - LIMITS_SHOWN} other sessions")
    held = sum(one.device == flow.device for one in now.held)
    if held:
        waits = "waits" if held == 1 else "wait"
        said.append(f"{telling.count(held, 'session')} {waits} for your word before going there: hhd sync")
    return said


def _lacks(flow: Flow) -> str:
    if not flow.checkpoints:
        return f"{telling.count(flow.behind, 'session')} behind" if flow.behind else "has everything"
    size = f"{'more than ' if flow.at_least else ''}{telling.size(flow.bytes)}"
    return f"lacks {telling.count(flow.checkpoints, 'checkpoint')} of {telling.count(flow.behind, 'session')}, {size}"


def named(name: str, device: str) -> str:
    """What a device is called; its name is somebody's text."""
    return short(name, NAME_CHARS) or device[:9]
