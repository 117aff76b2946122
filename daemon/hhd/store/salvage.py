"""Gets rows out of a damaged SQLite file, page by page: every row that a healthy page holds is found again.

Rows prove themselves (a seal bound to its name, a hash that is the name), so a page needs no healthy way to it: pages
that the trees still reach are read first, the others after. Deleted rows are not brought back: `secure_delete`
overwrites them.

Format: https://sqlite.org/fileformat2.html, sections 1.3 to 2.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from hhd.store.layout import FILE
from hhd.store.wal import read_log

PAGE_BYTES = 4096
_ROOTS = (2, 3, 4, 5)
"""Of the tables in the order they were made: the same in every store."""
_TABLE_LEAF, _TABLE_INTERIOR, _INDEX_LEAF, _INDEX_INTERIOR = 0x0D, 0x05, 0x0A, 0x02
_VALUE_BYTES_MAX = 1 << 30

Column = bytes | int | None


class File:
    """The pages of a database file with its write-ahead log applied."""

    def __init__(self, folder: Path) -> None:
        raw = (folder / FILE).read_bytes() if (folder / FILE).exists() else b""
        log = read_log(folder / f"{FILE}-wal")
        self._raw, self._changed = raw, log.pages
        self.count = max(-(-len(raw) // PAGE_BYTES), *log.pages, 0) if log.pages else -(-len(raw) // PAGE_BYTES)

    def page(self, number: int) -> bytes:
        """Return page `number` (1 is the first), padded with zeros where the file ends."""
        if number in self._changed:
            return self._changed[number]
        return self._raw[(number - 1) * PAGE_BYTES : number * PAGE_BYTES].ljust(PAGE_BYTES, b"\0")

    def records(self, accept: Callable[[int, list[Column]], None]) -> None:
        """Give `accept` each record that can be read, with its row number (0 in a table without)."""
        seen: set[int] = set()
        waiting = list(_ROOTS)
        while waiting:
            number = waiting.pop()
            if number in seen or not 1 <= number <= self.count:
                continue
            seen.add(number)
            waiting += self._children(number)
            for record in self._records(number):
                accept(*record)
        for number in range(2, self.count + 1):
            if number not in seen:
                for record in self._records(number):
                    accept(*record)

    def _children(self, number: int) -> list[int]:
        page = self.page(number)
        if page[0] not in (_TABLE_INTERIOR, _INDEX_INTERIOR):
            return []
        cells = self._cells(page, 12)
        return [int.from_bytes(page[8:12], "big")] + [int.from_bytes(page[at : at + 4], "big") for at in cells]

    def _cells(self, page: bytes, header: int) -> list[int]:
        count = int.from_bytes(page[3:5], "big")
        found = (int.from_bytes(page[header + 2 * i : header + 2 * i + 2], "big") for i in range(min(count, 1000)))
        return [at for at in found if header <= at <= PAGE_BYTES - 4]

    def _records(self, number: int) -> Iterator[tuple[int, list[Column]]]:
        page = self.page(number)
        kind = page[0]
        if kind not in (_TABLE_LEAF, _INDEX_LEAF, _INDEX_INTERIOR):
            return
        for at in self._cells(page, 12 if kind == _INDEX_INTERIOR else 8):
            try:
                size, at = _varint(page, at + 4 if kind == _INDEX_INTERIOR else at)
                row, at = _varint(page, at) if kind == _TABLE_LEAF else (0, at)
                if size > _VALUE_BYTES_MAX:
                    continue
                payload = self._payload(page, at, size, table=kind == _TABLE_LEAF)
                if payload is not None:
                    yield row, _columns(payload)
            except (IndexError, ValueError):
                continue

    def _payload(self, page: bytes, at: int, size: int, *, table: bool) -> bytes | None:
        most = PAGE_BYTES - 35 if table else (PAGE_BYTES - 12) * 64 // 255 - 23
        local = size
        if size > most:
            least = (PAGE_BYTES - 12) * 32 // 255 - 23
            local = least + (size - least) % (PAGE_BYTES - 4)
            local = local if local <= most else least
        parts, left = [page[at : at + local]], size - local
        following = int.from_bytes(page[at + local : at + local + 4], "big") if left else 0
        seen: set[int] = set()
        while left:
            if not 1 <= following <= self.count or following in seen:
                return None
            seen.add(following)
            more = self.page(following)
            parts.append(more[4 : 4 + min(left, PAGE_BYTES - 4)])
            left -= min(left, PAGE_BYTES - 4)
            following = int.from_bytes(more[:4], "big")
        joined = b"".join(parts)
        return joined if len(joined) == size else None


def _varint(page: bytes, at: int) -> tuple[int, int]:
    value = 0
    for i in range(9):
        byte = page[at + i]
        if i == 8:
            return value << 8 | byte, at + 9
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + i + 1
    raise ValueError("unreachable")


def _columns(payload: bytes) -> list[Column]:
    end, at = _varint(payload, 0)
    kinds = []
    while at < end:
        kind, at = _varint(payload, at)
        kinds.append(kind)
    columns: list[Column] = []
    at = end
    for kind in kinds:
        if kind == 0:
            columns.append(None)
        elif kind in (8, 9):
            columns.append(kind - 8)
        elif kind <= 6:
            size = (0, 1, 2, 3, 4, 6, 8)[kind]
            columns.append(int.from_bytes(payload[at : at + size], "big", signed=True))
            at += size
        elif kind >= 12:
            size = (kind - 12) // 2
            if at + size > len(payload):
                raise ValueError("a record is cut short")
            columns.append(payload[at : at + size])
            at += size
        else:
            raise ValueError("a record has a value of no kind we write")
    return columns
