"""Single records of a Claude Code session, wherever they are in its file."""

from __future__ import annotations

from collections.abc import Sequence

from hhd.native.claude_records import Record
from hhd.native.mend import Mended, mend
from hhd.native.reading import Lines
from hhd.native.source import Block, Source
from hhd.native.tree import Tree
from hhd_protocol.transcript import Reason


class Lookup:
    """Reads the block of a record once more, and keeps the block read last."""

    def __init__(self, source: Source, records: Lines[Record], tree: Tree) -> None:
        self._source, self._records, self._tree = source, records, tree
        self.blocks: list[Block] = []
        """Of the whole file, in its order; added to in the first pass."""
        self._fetched: tuple[int, Sequence[Record | Reason]] = (-1, ())

    def fetch(self, node: int) -> Record | None:
        """One record, wherever it is."""
        line = self._tree.lines[node]
        number = self._block_of(line)
        block = self.blocks[number]
        if self._fetched[0] != number:
            self._fetched = (number, self._records.decode(block, self._source.again(block)))
        kept = self._fetched[1]
        found = kept[line - block.first_line]
        return found if isinstance(found, Record) else None

    def reply(self, node: int) -> str | None:
        """The id of the reply that a node is a part of."""
        rec = self.fetch(node)
        return rec.message.id if rec is not None and rec.message is not None else None

    def has_result(self, node: int) -> bool:
        """Whether a node holds results of calls."""
        rec = self.fetch(node)
        content = rec.message.content if rec and rec.message else None
        return isinstance(content, list) and any(piece.type == "tool_result" for piece in content)

    def raw_line(self, line: int) -> bytes | None:
        """The bytes of a line that had to be mended, as mended; None for any other."""
        block = self.blocks[self._block_of(line)]
        raw = self._source.again(block).split(b"\n")[line - block.first_line]
        mended = mend(raw, last_and_open=False)
        return mended.line if isinstance(mended, Mended) else None

    def _block_of(self, line: int) -> int:
        low, high = 0, len(self.blocks)
        while high - low > 1:
            middle = (low + high) // 2
            if self.blocks[middle].first_line <= line:
                low = middle
            else:
                high = middle
        return low
