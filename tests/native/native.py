"""What tests of native sessions share: the fixtures, the index that says what is in them, small writers of records."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from hhd.native.opening import open_session
from hhd_protocol.transcript import (
    Account,
    Call,
    Compaction,
    Header,
    Item,
    Message,
    Outcome,
    Result,
    Text,
    Thinking,
)

FIXTURES = Path(__file__).parents[1] / "fixtures" / "native"


@dataclass(frozen=True, kw_only=True)
class Indexed:
    """One row of INDEX.md: a session file and what the real client makes of it."""

    path: Path
    harness: str
    accepted: bool
    counts: str

    @property
    def name(self) -> str:
        if "edge" in self.path.parts:
            return self.path.name
        return f"{self.path.relative_to(FIXTURES).parts[2]}-{self.path.stem[-4:]}"


def indexed() -> list[Indexed]:
    """All session files of INDEX.md."""
    found = []
    for row in (FIXTURES / "INDEX.md").read_text().splitlines():
        match = re.match(r"\| `([^`]+\.jsonl)` \|.*\| ([^|]*) \|$", row)
        if match is None or "/subagents/" in match[1]:
            continue
        path = FIXTURES / match[1]
        harness = path.name.split(".")[-2] if "edge" in path.parts else match[1].split("/")[1]
        accepted, _, counts = match[2].partition(": ")
        found.append(
            Indexed(path=path, harness=harness, accepted=accepted.startswith("accepted"), counts=counts.strip())
        )
    assert len(found) == 54, "INDEX.md has another number of sessions than when this test was written"
    return found


@dataclass(frozen=True, kw_only=True)
class Whole:
    """A session read to its end."""

    header: Header
    items: list[Item]
    account: Account

    def of(self, kind: type) -> list[Item]:
        return [item for item in self.items if type(item) is kind]

    def texts(self, *, live: bool = True) -> list[str]:
        """The texts of messages and replies, with `u ` or `a ` before them."""
        found = []
        for item in self.items:
            if isinstance(item, Message) and item.live is live:
                found.append("u " + "".join(part.text for part in item.parts if hasattr(part, "text")))
            elif isinstance(item, Text) and item.live is live:
                found.append("a " + item.text)
        return found


def read(path: Path) -> Whole:
    """Read a session whole; the account must be complete."""
    with open_session(path) as reading:
        items = list(reading.items())
        account = reading.account
        assert account.complete, account
        return Whole(header=reading.header, items=items, account=account)


def native_counts(items: Iterable[Item]) -> str:
    """What the client would send, in the short form of INDEX.md."""
    letters = {Message: "u", Text: "a", Call: "c", Result: "r", Compaction: "s", Thinking: "t"}
    found: Counter[str] = Counter()
    for item in items:
        missing = isinstance(item, Result) and item.outcome is Outcome.MISSING
        empty = isinstance(item, Compaction) and item.summary is None
        if type(item) in letters and getattr(item, "live", True) and not missing and not empty:
            found[letters[type(item)]] += 1
    return " ".join(f"{found[letter]}{letter}" for letter in "uacrst" if found[letter])


def claude_record(number: int, parent: int | None, role: str, content: object, **more: object) -> dict[str, object]:
    """A record of Claude Code; ids and times come from `number`."""
    message: dict[str, object] = {"role": role, "content": content}
    if role == "assistant":
        message |= {"id": f"msg_{number}", "type": "message", "model": "claude-opus-5-5"}
    return {
        "parentUuid": None if parent is None else f"u-{parent}",
        "isSidechain": False,
        "type": role,
        "message": message,
        "uuid": f"u-{number}",
        "timestamp": f"2026-08-17T12:{number // 60 % 60:02}:{number % 60:02}.000Z",
        "cwd": "/home/alice/src/demo",
        "sessionId": "aaaaaaaa-0000-4000-8000-000000000001",
        "version": "2.1.332",
        **more,
    }


def lines(*records: object) -> bytes:
    """Records as JSON Lines."""
    return b"".join(
        json.dumps(record, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n" for record in records
    )


def write(folder: Path, raw: bytes, name: str = "aaaaaaaa-0000-4000-8000-000000000001.jsonl") -> Path:
    """A file with `raw` in it."""
    path = folder / name
    path.write_bytes(raw)
    return path
