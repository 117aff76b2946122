"""The model as a session sees it: a request in JSON goes in, one reply in JSON comes out.

Two kinds answer: a service that speaks the Messages API (`messages_api`) and a script (`scripted`). Both keep to
`protocol/spec/agent-effects.md`. A reply that the agent can deal with, an overloaded service included, is returned;
what only the person can mend (no key, no network, no such model, no more script) is raised as `ModelUnavailable`, and
the session stays at this call.
"""

from __future__ import annotations

import enum
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from hhd.base.config import ModelConfig
from hhd.base.errors import Exit, UserError

SCRIPTED = "scripted:"
"""A model named so is a script: `scripted:FILE`, or the name of one that comes with hhd."""


class Kind(enum.Enum):
    """What is being told while a reply comes in."""

    TEXT = "text"
    THINKING = "thinking"
    NOTICE = "notice"


@dataclass(frozen=True, kw_only=True)
class Told:
    """A piece of a reply as it arrives, of unknown origin: whoever prints it makes it visible first."""

    kind: Kind
    text: str


Watch = Callable[[Told], None]
"""Who watches a reply come in; called in order, from the thread that asked."""


class ModelUnavailable(UserError):
    """No reply, and only the person can change that; the call can be made again later."""

    def __init__(self, sentence: str, exit: Exit = Exit.REFUSED) -> None:
        super().__init__(sentence)
        self.exit = exit


class Model(Protocol):
    """Answers model calls."""

    @property
    def name(self) -> str:
        """What the person called it."""
        ...

    def answer(self, request: bytes, *, position: int, watch: Watch) -> bytes:
        """Return the reply to `request`, the session's model call number `position` (the first is 0).

        Raises ModelUnavailable; KeyboardInterrupt from the terminal passes through, and the call may be made again.
        """
        ...


def open_model(name: str | None, config: ModelConfig, folder: Path) -> Model:
    """The model called `name` (None: the configured one); a relative script is looked for in `folder`.

    Imports no vendor: that waits for the first call. Raises UserError when there is no key or no such script.
    """
    name = name or config.name
    if name.startswith(SCRIPTED):
        from hhd.effects.scripted import Script

        return Script.open(name.removeprefix(SCRIPTED), folder)
    from hhd.effects.messages_api import MessagesApi

    return MessagesApi(name=name, credential=config.credential(), config=config)


def warm(name: str) -> None:
    """Begin, in a thread of its own, to load what calls of the model `name` will need: the import takes a second."""
    if not name.startswith(SCRIPTED):
        threading.Thread(target=_import, name="import of the model client", daemon=True).start()


def _import() -> None:
    from hhd.effects.messages_api import load_sdk

    load_sdk()


def encode_reply(reply: dict[str, object]) -> bytes:
    """The bytes a guest gets: compact JSON in UTF-8. Raises ValueError for what JSON cannot hold (NaN, surrogates)."""
    return json.dumps(reply, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")
