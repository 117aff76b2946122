"""What parts of the daemon say through the standard `logging`, noted in the daemon's log.

Of a message its own words are noted, which are ours, and of what was put into it only what has the form of a device, an
address, an id or a number, and the kind of an error: titles, paths and a peer's words have none of these.
"""

from __future__ import annotations

import errno
import logging
import re

from hhd.base import log

_PLACE = re.compile(r"%[-+ #0]*\d*(\.\d+)?[a-zA-Z]")
_NOTED = re.compile(r"[a-z2-7]{4,8}(-[a-z2-7]{4,8}){3,}|[A-Z2-7]{4,8}(-[A-Z2-7]{4,8}){3,}|[0-9a-f]{16,64}|"
                    r"\[?[0-9a-fA-F:]*(:[0-9a-fA-F]*){2,}\]?(:\d+)?|(\d{1,3}\.){3}\d{1,3}(:\d+)?")  # fmt: skip
"""A device as text, an id, an address with or without a port."""
_LEFT_OUT = re.compile(r"[^][A-Za-z0-9_ ,.:;()'%+-]")
_CHARS_MAX = 200


SOURCES = ("hhd", "asyncio")


class Bridge(logging.Handler):
    """Notes each message."""

    def emit(self, record: logging.LogRecord) -> None:
        """Note one message; its error, if it has one, by kind and place."""
        words = _words(record)
        part = record.name.removeprefix("hhd.")
        if record.exc_info is not None and record.exc_info[1] is not None:
            log.fault("said", record.exc_info[1], part=part, why=words)
        elif record.levelno >= logging.WARNING:
            log.warn("said", part=part, why=words)
        else:
            log.note("said", part=part, why=words)


def build() -> None:
    """Let what is said under `hhd`, and by asyncio, go to the daemon's log, and nowhere else; again does nothing."""
    for name in SOURCES:
        source = logging.getLogger(name)
        if not any(isinstance(one, Bridge) for one in source.handlers):
            source.addHandler(Bridge())
        source.setLevel(logging.INFO)
        source.propagate = False


def _words(record: logging.LogRecord) -> str:
    given = record.args if isinstance(record.args, tuple) else ()
    left = iter(given)
    text = _PLACE.sub(lambda _: _shown(next(left, "")), str(record.msg))
    return _LEFT_OUT.sub("", text)[:_CHARS_MAX].strip() or "(nothing noted)"


def _shown(value: object) -> str:
    if isinstance(value, OSError) and value.errno is not None:
        return errno.errorcode.get(value.errno, "OSError")
    if isinstance(value, BaseException):
        return type(value).__name__
    if isinstance(value, float):
        return f"{value:.1f}"
    text = str(value)
    return text if isinstance(value, int) or _NOTED.fullmatch(text) else "(not noted)"
