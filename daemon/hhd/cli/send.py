"""The command `hhd send`."""

from __future__ import annotations

import sys

import click

from hhd.app import attending
from hhd.base.errors import UsageError
from hhd.cli import telling
from hhd.cli.options import JSON, SESSION

TEXT_BYTES_MAX = 1024 * 1024
"""Of what is said at once (`spec/live.md`, Bounds)."""

_HOW = {
    "answer": "It waited for words and goes on with these.",
    "steering": "It is at work, and hears this at its next step.",
    "prompt": "It goes on with this.",
}


@click.command("send")
@SESSION
@click.argument("text")
@JSON
def command(session: str, text: str, as_json: bool) -> None:
    """Say TEXT to SESSION, or what stands at standard input, if TEXT is '-'; and return.

    One that waits for words, or rests, goes on with them in the background; one at work hears them at its next step.
    One that runs on another device of yours hears them there.
    """
    words = _read() if text == "-" else text
    if not words.strip():
        raise UsageError("There is nothing to say.")
    with attending.runs(starts=True) as runs:
        assert runs is not None
        heard = runs.say(session, words)
    if as_json:
        telling.as_object(heard)
        return
    name = telling.brief(heard.session)
    telling.lines([f"{name}: {_HOW.get(heard.how, 'It was heard.')} See it with: hhd attach {name}"])


def _read() -> str:
    raw = sys.stdin.buffer.read(TEXT_BYTES_MAX + 1)
    if len(raw) > TEXT_BYTES_MAX:
        raise UsageError(f"That is more than the {TEXT_BYTES_MAX:,} bytes that can be said at once.")
    return raw.decode("utf-8", "replace").removesuffix("\n")
