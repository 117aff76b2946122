"""Events that a peer tells of its session, made safe to pass on to a terminal: a peer is not believed for being one."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

from hhd.base.text import visible
from hhd.node.live import named
from hhd_protocol import live
from hhd_protocol.errors import FormatError
from hhd_protocol.limits import LIVE_LINE_BYTES_MAX, RELAY_SENTENCE_BYTES_MAX

WAYS_MAX = 8


def safe(event: live.Event) -> live.Event:
    """Return `event` with its texts as `live.md` promises them; raises FormatError for a question that is none.

    What is of unknown origin there (`words`, `said`, `listening`) stays so, and whoever prints it makes it visible.
    """
    match event:
        case live.Question(pages=pages, shown=shown):
            if any(visible(page) != page for page in pages) or _digest(pages) != shown:
                raise FormatError("a question is not what its digest says, or not safe to print")
            return replace(event, always=_line(event.always))
        case live.Attached():
            return replace(
                event,
                title=_line(event.title),
                program=_line(event.program),
                folder=_line(event.folder),
                by=named(event.by),
            )
        case live.State(ways=ways):
            return replace(event, sentence=_line(event.sentence), ways=tuple(_line(one) for one in ways[:WAYS_MAX]))
        case live.Keys(line=line):
            return live.Keys(by=named(event.by), line=_line(line, LIVE_LINE_BYTES_MAX))
        case live.Said(text=text):
            return live.Said(by=named(event.by), text=text)
        case live.Settled():
            return replace(event, by=named(event.by))
        case live.Notice(text=text):
            return live.Notice(text=_line(text))
    return event


def sentence(text: str) -> str:
    """A sentence that a peer says, safe to print."""
    return _line(text)


def _line(text: str, bytes_max: int = RELAY_SENTENCE_BYTES_MAX) -> str:
    return visible(text.encode("utf-8", "replace")[:bytes_max].decode("utf-8", "ignore"), one_line=True)


def _digest(pages: tuple[str, ...]) -> bytes:
    found = sha256()
    for page in pages:
        found.update(page.encode("utf-8", "surrogatepass"))
    return found.digest()
