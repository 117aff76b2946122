"""What every tool is: a name, a checked input, what policy judges it by, and an act."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from hhd.effects.cancel import Cancel
from hhd.effects.confine import Inside, PathRefused, Workspace
from hhd.effects.sandbox import Sandbox

_ESCAPED = {code: f"\\x{code:02x}" for code in [*range(0x20), 0x7F] if chr(code) not in "\n\t\r"}
"""Control characters in a reply: NUL makes model services refuse the whole conversation, ESC drives terminals."""


class CallRefused(Exception):
    """A request that is no call of a known tool; the message is one sentence that the model can act on."""


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What a tool answers: text for the model, and whether it failed. Same files, same reply: no clock, no path of
    this device."""

    output: str
    is_error: bool = False

    def encode(self) -> bytes:
        """The reply as the guest gets it (`agent-effects.md`)."""
        text = safe(self.output)
        return json.dumps({"is_error": self.is_error, "output": text}, ensure_ascii=False, sort_keys=True).encode()


def failed(sentence: str) -> Reply:
    """A reply that tells the model what went wrong."""
    return Reply(output=sentence, is_error=True)


def safe(text: str) -> str:
    """`text` with control characters and lone surrogates as escapes; newline, tab and return stay."""
    return text.translate(_ESCAPED).encode("utf-8", "backslashreplace").decode("utf-8")


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What policy judges one call by: the command of bash, or the places of the workspace it touches.

    `places` holds the place as asked for and, where links lead elsewhere, the place really meant.
    """

    tool: str
    command: str | None = None
    places: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Context:
    """What a tool works with: the folder, the walls, the environment, the person's wish to end it.

    `judged`: what policy and person agreed to (None: nothing was judged). `passed_over`: patterns of places (`globs`,
    folded) that searches do not look into.
    """

    workspace: Workspace
    sandbox: Sandbox
    environment: Mapping[str, str]
    cancel: Cancel
    judged: Subject | None = None
    passed_over: tuple[str, ...] = ()

    def place(self, path: str) -> Inside:
        """The place that `path` means, which is the one that was judged; raises PathRefused, also if that changed."""
        found = self.workspace.resolve(path)
        if self.judged is not None and str(found) != self.judged.places[0]:
            raise PathRefused("A link in the path has changed since the call was judged; nothing was done.")
        return found


class Input(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The checked input of a call; each tool has its own."""


In = TypeVar("In", bound=Input)


@dataclass(frozen=True, kw_only=True)
class Tool(Generic[In]):
    """One tool.

    `repeatable`: running it twice harms nothing, so an interrupted run may be repeated unasked. `changes`: it may
    write, so the workspace is captured afterwards. `subject` raises PathRefused; `act` raises PathRefused and
    OSError, which become replies, and Interrupted.
    """

    name: str
    input: type[In]
    repeatable: bool
    changes: bool
    subject: Callable[[In, Workspace], Subject]
    act: Callable[[In, Context], Reply]


AnyTool = Tool[Any]


class _Envelope(msgspec.Struct):
    name: str
    input: msgspec.Raw
    id: str = ""


@dataclass(frozen=True, kw_only=True)
class Call:
    """One call of a known tool, its input checked."""

    id: str
    tool: AnyTool
    input: Input


def parse(request: bytes, tools: Mapping[str, AnyTool]) -> Call:
    """Return the call that `request` is; raises CallRefused."""
    try:
        envelope = msgspec.json.decode(request, type=_Envelope)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise CallRefused("The tool call is not a JSON object with id, name and input.") from None
    tool = tools.get(envelope.name)
    if tool is None:
        raise CallRefused(f"There is no tool of that name; there are {', '.join(sorted(tools))}.")
    try:
        checked = msgspec.json.decode(envelope.input, type=tool.input)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CallRefused(f"The input of {tool.name} is not as it should be: {str(error)[:300]}.") from None
    return Call(id=envelope.id, tool=tool, input=checked)


def by_place(tool: str, insist: Callable[[Inside], None] | None = None) -> Callable[[Any, Workspace], Subject]:
    """A `subject` for a tool whose input has a `path`; `insist` raises PathRefused for places it never touches."""

    def subject(asked: Any, workspace: Workspace) -> Subject:
        place = workspace.resolve(asked.path or ".")
        if insist is not None:
            insist(place)
        return Subject(tool=tool, places=places(asked.path or ".", place))

    return subject


def places(path: str, place: Inside) -> tuple[str, ...]:
    """What policy looks at: `place`, and `path` as written where that reads differently."""
    written = "/".join(name for name in path.split("/") if name not in ("", ".")) or "."
    return (str(place),) if written == str(place) else (str(place), written)
