"""Times as the clients spell them."""

from __future__ import annotations

import re
from datetime import UTC, datetime

_ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)")


class Clock:
    """Gives each record a time: its own if it is one, else that of the record before it."""

    def __init__(self, start: str) -> None:
        self._last = iso(start) or "1970-01-01T00:00:00.000Z"
        self.invented = 0
        """Records whose time is that of a neighbour."""

    def at(self, time: str | None) -> str:
        """ISO 8601 with a zone."""
        if time is not None and len(time) == 24 and time[23] == "Z" and _ISO.fullmatch(time):
            self._last = time
            return time
        found = iso(time) if time is not None else None
        if found is None:
            self.invented += 1
        else:
            self._last = found
        return self._last


def iso(time: str) -> str | None:
    """`time` as ISO 8601 in UTC with milliseconds; None if it is neither ISO nor milliseconds since 1970."""
    try:
        if _ISO.fullmatch(time):
            moment = datetime.fromisoformat(time.replace("Z", "+00:00")).astimezone(UTC)
        elif time.isascii() and time.isdigit() and len(time) <= 14:
            moment = datetime.fromtimestamp(int(time) / 1000, UTC)
        else:
            return None
    except (ValueError, OverflowError, OSError):
        return None
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


def milliseconds(time: str) -> int:
    """An ISO time of ours as milliseconds since 1970."""
    return int(datetime.fromisoformat(time.replace("Z", "+00:00")).timestamp() * 1000)
