"""The way back: a session that came from this client returns to it with its first legs byte for byte.

What was converted is not converted again: the original's own records stand first, unchanged, and only what was added
since hangs on their last one. The one thing that must differ is an id that the client wants equal to the file's
name (Codex and Pi hold it in the first line; Claude Code's is the name alone).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from hhd.native.convert.history import Conversion, stretch
from hhd.native.convert.writer import Continues
from hhd_protocol.transcript import Call, Compaction, Gap, Harness, Item

FIRST_LINE_BYTES_MAX = 64 * 1024 * 1024
"""A first line holds the vendor's instructions: natively under 64 KiB; the bound keeps a hostile one out of memory."""

_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Return:
    """`original` begins with the records of the first legs, `size` bytes in whole lines; `after` is the number of
    lines of the source that came from them; `continues` tells a writer what the new records hang on."""

    original: Path
    size: int
    after: int
    continues: Continues
    base: str | None = None
    """The thread that the original is a fork of, in a file of its own that must be there too."""

    def first_lines(self, harness: Harness, session_id: str) -> Iterator[bytes]:
        """The original's records, in blocks without the final newline."""
        with open(self.original, "rb") as file:
            left = self.size
            if harness is not Harness.CLAUDE:
                first = file.readline(min(left, FIRST_LINE_BYTES_MAX))
                left -= len(first)
                yield _renamed(first, harness, session_id)
            pending = b""
            while left:
                block = file.read(min(left, _BLOCK_BYTES))
                assert block, "its length and digest were checked"
                left -= len(block)
                block = pending + block
                cut = block.rfind(b"\n")
                if cut < 0:
                    pending = block
                    continue
                yield block[:cut]
                pending = block[cut + 1 :]
            assert not pending, "only whole lines are recorded"


def find_return(
    source: Path,
    target: Harness,
    conversion: Conversion,
    original: Callable[[Conversion], Path | None],
) -> Return | None:
    """How `source` can return to `target`, or None if it did not come from there or the original is gone."""
    if conversion.source_harness is not target or conversion.source_leaf is None:
        return None
    came = stretch(source, conversion.target.size)
    if came is None or came.sha256 != conversion.target.sha256:
        return None
    path = original(conversion)
    if path is None:
        return None
    with open(path, "rb") as file:
        file.seek(conversion.source.size - 1)
        if file.read(1) != b"\n":
            return None
        file.seek(0)
        first = file.readline(min(conversion.source.size, FIRST_LINE_BYTES_MAX))
    ordinal = base = None
    if target is not Harness.CLAUDE:
        facts = _facts(first)
        if facts is None or (target is Harness.PI and facts.get("version") != 3):
            return None
        payload = facts.get("payload")
        if isinstance(payload, dict) and isinstance(fork := payload.get("history_base"), dict):
            base = str(fork.get("thread_id"))
        if isinstance(payload, dict) and payload.get("history_mode") == "paginated":
            ordinal = _last_ordinal(path, conversion.source.size)
            if ordinal is None:
                return None
    return Return(
        original=path,
        size=conversion.source.size,
        after=conversion.target.lines,
        continues=Continues(parent=conversion.source_leaf, ordinal=ordinal),
        base=base,
    )


def original_in_place(conversion: Conversion) -> Path | None:
    """The original where it was, if it still begins with the bytes that were converted."""
    path = Path(conversion.source.path)
    found = stretch(path, conversion.source.size)
    return path if found is not None and found.sha256 == conversion.source.sha256 else None


def added_since(items: Iterable[Item], after: int, folds: bool, seen: Callable[[str], None]) -> Iterator[Item]:
    """The items of the new leg; if it `folds`, also what its compaction may keep of the first legs.

    `seen` is told the ids of the calls that are passed over, so that no new one takes them.
    """
    for item in items:
        if item.at.line > after or (folds and not isinstance(item, Gap | Compaction) and item.live):
            yield item
        elif isinstance(item, Call):
            seen(item.id)


def _facts(line: bytes) -> dict[str, object] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _renamed(line: bytes, harness: Harness, session_id: str) -> bytes:
    facts = json.loads(line)
    if harness is Harness.PI:
        facts["id"] = session_id
    else:
        facts["payload"]["id"] = session_id
        if "session_id" in facts["payload"]:
            facts["payload"]["session_id"] = session_id
    return json.dumps(facts, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def _last_ordinal(path: Path, size: int) -> int | None:
    with open(path, "rb") as file:
        file.seek(max(0, size - FIRST_LINE_BYTES_MAX))
        tail = file.read(size - file.tell())
    facts = _facts(tail.rstrip(b"\n").rsplit(b"\n", 1)[-1])
    ordinal = facts.get("ordinal") if facts is not None else None
    return ordinal if isinstance(ordinal, int) and not isinstance(ordinal, bool) else None
