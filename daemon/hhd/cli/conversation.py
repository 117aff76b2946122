"""Renders an agent's transcript (`protocol/spec/agent-effects.md`, Transcript) for a person, as it grows or afterwards.

A transcript is written by a guest, so it may hold anything: each line is taken as an event only as far as it is one,
and every text is made visible. Nothing here fails on nonsense; a line that is no event is shown as a line.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from hhd.base.text import visible
from hhd.cli.paint import Ink, Paper

OUTPUT_LINES = 12
"""Lines of a tool's output shown while working: the first few and the last few; the transcript has all."""

SPOKEN_CHARS_MAX = 4 * 1024 * 1024
"""Of words that came and are not in the transcript yet; more than any reply has."""

LINE_CHARS = 400
"""Of one line of output: minified files have lines of megabytes."""


def events(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of a transcript that comes in pieces of any size; the last may lack its newline."""
    rest: list[bytes] = []
    for piece in pieces:
        head, *lines = piece.split(b"\n")
        rest.append(head)
        for line in lines:
            yield b"".join(rest)
            rest = [line]
    if any(rest):
        yield b"".join(rest)


@dataclass(kw_only=True)
class Conversation:
    """Writes events on paper. `whole`: outputs are not shortened. `spoken`: words that are there already, and not in
    the transcript yet. Who came in the middle of them has their end only, and gets the text whole from the transcript.
    """

    paper: Paper
    whole: bool = False
    spoken: str = ""
    _called: dict[str, str] = field(default_factory=dict)

    def speak(self, piece: str) -> None:
        """Write a piece of the model's words as it comes, before it is in the transcript."""
        self.spoken = (self.spoken + piece)[-SPOKEN_CHARS_MAX:]
        self.paper.write(visible(piece))

    def show(self, line: bytes) -> None:
        """Write one line of a transcript."""
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            event = None
        if not isinstance(event, dict) or not isinstance(event.get("event"), str):
            self.paper.line(visible(line.decode("utf-8", "surrogateescape")))
            return
        act = getattr(self, f"_{event['event']}", None) if event["event"] in _SHOWN else None
        if act is not None:
            act(event)

    def _user(self, event: Mapping[str, object]) -> None:
        self.paper.end_line()
        words = _text(event, "text").rstrip("\n").replace("\n", "\n  ")
        self.paper.line(f"> {words}", Ink.PERSON)

    def _text(self, event: Mapping[str, object]) -> None:
        found = event.get("text")
        at = self.spoken.find(found) if isinstance(found, str) and found else -1
        if at < 0:
            self.paper.line(_text(event, "text").rstrip("\n"))
        else:
            self.spoken = self.spoken[at + len(str(found)) :]

    def _thinking(self, event: Mapping[str, object]) -> None:
        if self.whole and (text := _text(event, "text")):
            self.paper.line(_indented(text), Ink.FAINT)

    def _call(self, event: Mapping[str, object]) -> None:
        found = event.get("input")
        given: Mapping[str, object] = found if isinstance(found, dict) else {}
        name, key = _text(event, "name"), _key(event)
        title = f"{name} {_subject(name, given)}".rstrip()
        self._called[key] = title
        self.paper.line(f"* {title}", Ink.CALL)
        if name == "edit":
            self._change(_text(given, "old"), _text(given, "new"))
        elif name == "write":
            self._change("", _text(given, "content"))

    def _change(self, old: str, new: str) -> None:
        lines = list(difflib.ndiff(old.splitlines(), new.splitlines())) if len(old) + len(new) < 20_000 else []
        lines = lines or [f"- {line}" for line in old.splitlines()] + [f"+ {line}" for line in new.splitlines()]
        shown = [line for line in lines if not line.startswith("?")]
        for line in self._shortened(shown):
            self.paper.line(f"    {line}", {"+": Ink.ADDED, "-": Ink.REMOVED}.get(line[:1], Ink.PLAIN))

    def _result(self, event: Mapping[str, object]) -> None:
        failed = event.get("is_error") is True
        title = self._called.pop(_key(event), "")
        output = _text(event, "output").rstrip("\n")
        quiet = title.startswith(("read ", "write ", "edit ")) and not failed and not self.whole
        if failed:
            self.paper.line("  failed:" if output else "  failed", Ink.ALARM)
        if output and not quiet:
            for line in self._shortened(output.split("\n")):
                self.paper.line(f"  | {line}", Ink.FAINT)

    def _notice(self, event: Mapping[str, object]) -> None:
        self.paper.line(f"({_text(event, 'text')})", Ink.FAINT)

    def _error(self, event: Mapping[str, object]) -> None:
        status = event.get("status")
        with_status = f" (status {status})" if isinstance(status, int) else ""
        self.paper.line(f"The model call failed{with_status}: {_text(event, 'text')}", Ink.ALARM)

    def _compaction(self, event: Mapping[str, object]) -> None:
        self.paper.line(f"(a summary took the place of {event.get('dropped')} older messages)", Ink.FAINT)
        if self.whole:
            self.paper.line(_indented(_text(event, "summary")), Ink.FAINT)

    def _stop(self, event: Mapping[str, object]) -> None:
        reason = event.get("reason")
        if reason not in ("end_turn", "tool_use", "stop_sequence"):
            self.paper.line(f"(the reply ended by {visible(str(reason), one_line=True)})", Ink.FAINT)

    def _finished(self, event: Mapping[str, object]) -> None:
        reason, text = _text(event, "reason"), _text(event, "text")
        if reason not in ("end_turn", "ended"):
            self.paper.line(f"(the session ended: {reason}{': ' + text if text else ''})", Ink.ALARM)

    def _shortened(self, lines: list[str]) -> list[str]:
        if self.whole:
            return lines
        cut = [line if len(line) <= LINE_CHARS else f"{line[:LINE_CHARS]} ..." for line in lines]
        if len(cut) <= OUTPUT_LINES:
            return cut
        half = OUTPUT_LINES // 2
        return [*cut[:half], f"... {len(cut) - 2 * half} lines more ...", *cut[-half:]]


_SHOWN = frozenset({"user", "text", "thinking", "call", "result", "notice", "error", "compaction", "stop", "finished"})


def _text(event: Mapping[str, object], name: str) -> str:
    found = event.get(name)
    return visible(found) if isinstance(found, str) else ""


def _key(event: Mapping[str, object]) -> str:
    return str(event.get("id"))[:200]


def _subject(name: str, given: Mapping[str, object]) -> str:
    """What a call is about, on one line where it is short."""
    if name == "bash":
        return _text(given, "command").replace("\n", "\n    ")
    if name in ("glob", "grep"):
        where = _text(given, "path")
        return _text(given, "pattern") + (f" in {where}" if where else "")
    if "path" in given:
        return visible(_text(given, "path"), one_line=True)
    return visible(json.dumps(given, ensure_ascii=False, sort_keys=True)[:LINE_CHARS], one_line=True) if given else ""


def _indented(text: str) -> str:
    return "  " + text.rstrip("\n").replace("\n", "\n  ")
