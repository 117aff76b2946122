"""How a session that runs in the daemon is shown: to a person, or to a script."""

from __future__ import annotations

import json

from hhd.cli import telling
from hhd.cli.rendering import Rendering
from hhd.cli.screen import Screen
from hhd_protocol import live

TAIL_BYTES = 64 * 1024
"""Of a transcript that a person who comes to it is shown, from the last thing that was said to the session."""

_PROMPTS = (b'{"event":"user","from":"prompt"', b'{"event":"user","from":"input"')


class ForPerson(Rendering):
    """A session on a screen; with `quiet`, nothing of it. `tail`: of what was there before, only the end is shown."""

    def __init__(self, screen: Screen, *, quiet: bool, tail: bool) -> None:
        super().__init__(screen, quiet=quiet)
        self._tail = tail
        self._past: bytearray | None = None
        self._ends = 0
        self._cut = False

    def joined(self, attached: live.Attached) -> None:
        """As `hhd.cli.watching.View`."""
        if self._tail:
            self._tail, self._ends = False, attached.position
            self._past = bytearray() if attached.position else None

    def emitted_at(self, event: live.Emitted) -> None:
        """As `hhd.cli.watching.View`."""
        if self._past is None:
            self.emitted(event.piece)
            return
        self._cut = self._cut or (not self._past and event.position > 0)
        self._past += event.piece
        if event.position + len(event.piece) >= self._ends:
            past, self._past = bytes(self._past), None
            shown = last_turn(past, cut=self._cut)
            if self._cut or any(prompt in past[: len(past) - len(shown)] for prompt in _PROMPTS):
                self.notice("what came before is left out; --all shows it")
            self.emitted(shown)

    def happened(self, event: live.Event) -> None:
        """As `hhd.cli.watching.View`."""
        match event:
            case live.Words(text=text):
                self.text(text)
            case live.Notice(text=text):
                self.notice(text)
            case live.Missed(events=events):
                self.notice(f"{telling.count(events, 'passing line')} came too fast for this terminal")


class ForScript:
    """A session as one JSON object a line: its `position`, from which to go on after it, and one thing beside it.

    That is an `event` of the transcript; a `text`, where a line of it is none; the `rest` of a line that began before
    where it was asked from; or, by its kind, something that passes. To be attached one byte before `since`, if it has
    one: that says whether a line begins there.
    """

    def __init__(self, *, since: int) -> None:
        self._position, self._line = since, b""
        self._before: bool | None = True if since else None
        """Whether the byte before is still to come; None once it is known what a line begins as."""
        self._is_rest = False

    def joined(self, attached: live.Attached) -> None:
        """As `hhd.cli.watching.View`."""
        self.happened(attached)

    def emitted_at(self, event: live.Emitted) -> None:
        """As `hhd.cli.watching.View`."""
        piece = event.piece
        if self._before:
            self._before, self._is_rest, piece = None, piece[:1] != b"\n", piece[1:]
        *lines, self._line = (self._line + piece).split(b"\n")
        for line in lines:
            self._position += len(line) + 1
            self._tell("rest", _text(line)) if self._is_rest else self._tell(*_event(line))
            self._is_rest = False

    def happened(self, event: live.Event) -> None:
        """As `hhd.cli.watching.View`."""
        fields = telling.fields(event)
        fields = {name: one.hex() if isinstance(one, bytes) else telling.plain(one) for name, one in fields.items()}
        self._tell(type(event).__name__.lower(), fields)

    def notice(self, sentence: str) -> None:
        """As `hhd.cli.watching.View`."""
        self._tell("notice", {"text": sentence})

    def _tell(self, kind: str, said: object) -> None:
        print(json.dumps({"position": self._position, kind: said}), flush=True)


def last_turn(past: bytes, *, cut: bool) -> bytes:
    """The end of a transcript from the last thing that a person said; `cut`: it does not begin with a whole line."""
    begin = max((past.rfind(b"\n" + prompt) + 1 for prompt in _PROMPTS), default=0)
    if begin == 0 and cut:
        begin = past.find(b"\n") + 1
    return past[begin:]


def _event(line: bytes) -> tuple[str, object]:
    try:
        return "event", json.loads(line)
    except (ValueError, RecursionError):
        return "text", _text(line)


def _text(line: bytes) -> str:
    return line.decode("utf-8", "backslashreplace")
