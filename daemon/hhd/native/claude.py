"""The reader of Claude Code's sessions: what `claude --resume` would send, and what lies beside it.

A first pass over the file learns its shape (`claude_shape`), which tells what is sent (`claude_path`); a second one
makes the items (`claude_telling`), but for blocks that were made ready in the first (`claude_ready`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from hhd.native import claude_beside
from hhd.native.claude_items import Translator
from hhd.native.claude_lookup import Lookup
from hhd.native.claude_path import Conversation
from hhd.native.claude_ready import Ready, make_ready
from hhd.native.claude_records import Head, Record
from hhd.native.claude_shape import Shape
from hhd.native.claude_telling import Session, Telling
from hhd.native.reading import (
    RETAINED_BYTES_MAX,
    RETAINED_WHOLE_BYTES_MAX,
    Lines,
    Pairing,
    Progress,
    Reading,
    collect,
    nothing,
)
from hhd.native.source import Source
from hhd_protocol.transcript import (
    Account,
    AccountBook,
    Harness,
    Header,
    Item,
    Message,
    SourceFile,
    TextPart,
)


class ClaudeReading(Reading):
    """One session of Claude Code, or one helper's record."""

    def __init__(
        self,
        path: Path,
        *,
        progress: Progress = nothing,
        begin: int = 0,
        leaf: str | None = None,
        helper: str | None = None,
    ) -> None:
        """Open `path`.

        `begin`: read a tail only, from this byte (a line's begin); lines then count from the end, -1 last.
        `leaf`: read the line of conversation that ends at this record. `helper`: read the conversation of helpers.
        """
        self._source = Source(path, begin=begin)
        try:
            self._path = path
            self._progress = progress
            self._tail = begin > 0
            self._shape = Shape()
            self._records = Lines(self._source, Record, lenient=True, keeps_bom=False)
            self._lookup = Lookup(self._source, self._records, self._shape.tree)
            self._ready: list[Ready | None] = []
            self._shift = 0
            self._side_files = claude_beside.side_files(path)
            self._index()
            self._conversation = Conversation(self._shape, self._lookup, leaf=leaf, helper=helper, tail=self._tail)
            self._session = Session(
                path=path,
                source=self._source,
                records=self._records,
                shape=self._shape,
                conversation=self._conversation,
                lookup=self._lookup,
                ready=self._ready,
                translator=self._translator,
                shift=self._shift,
                tail=self._tail,
            )
            self._book = AccountBook()
            self.header = self._facts()
        except BaseException:
            self._source.close()
            raise

    def close(self) -> None:
        self._source.close()

    @property
    def plain(self) -> bool:
        return not self._shape.boundaries and not self._conversation.gaps

    @property
    def account(self) -> Account:
        return self._book.close(self._lines)

    def items(self) -> Iterator[Item]:
        self._book = AccountBook()
        return self._generate(self._book)

    def _generate(self, book: AccountBook) -> Iterator[Item]:
        telling = Telling(self._session, book)
        pairing = Pairing(
            dangling_is_live=False,
            orphans_are_live=False,
            seconds_are_live=False,
            replies_close=True,
            lookup=telling.results,
        )
        return pairing.run(telling.items())

    def _translator(self) -> Translator:
        return Translator(frozenset(self._side_files), self._path.stem, self._shift, self._lookup.raw_line)

    def _index(self) -> None:
        lines = 0
        translator = self._translator()
        heads = Lines(self._source, Head, lenient=True, keeps_bom=False)
        tree = self._shape.tree
        whole = self._source.size <= RETAINED_WHOLE_BYTES_MAX
        room = 0 if self._tail else RETAINED_WHOLE_BYTES_MAX if whole else RETAINED_BYTES_MAX
        for block, raw in self._source.blocks():
            ready = None
            self._lookup.blocks.append(block)
            if block.size <= room:
                begin = len(tree)
                records = self._records.decode(block, raw)
                self._shape.note(block.first_line, records)
                ready = None if self._records.mended else make_ready(translator, block, records, (begin, len(tree)))
                room -= block.size if ready is not None else 0
            else:
                self._shape.note(block.first_line, heads.decode(block, raw))
            self._ready.append(ready)
            lines += block.lines
            self._progress(len(raw))
        self._lines = lines
        self._shift = -lines - 1 if self._tail else 0
        tree.close()

    def _facts(self) -> Header:
        tree = self._shape.tree
        first = next((rec for rec in self._ends(range(len(tree))) if rec.timestamp), None)
        last = next((rec for rec in self._ends(range(len(tree) - 1, -1, -1)) if rec.timestamp), None)
        title = next(
            (self._shape.titles[k] for k in ("custom-title", "ai-title", "summary") if k in self._shape.titles), None
        )
        prompt: str | None = None
        for number, item in enumerate(self._generate(AccountBook())):
            if type(item) is Message and not self._tail:
                prompt = "".join(part.text for part in item.parts if isinstance(part, TextPart))[:1000]
                break
            if number > 200:
                break
        models: list[str] = []
        for rec in filter(None, (first, last)):
            if rec.message:
                collect(models, rec.message.model)
        refused = None
        if self._conversation.is_helper:
            refused = "all its records are a helper's: the client neither lists nor resumes it"
        elif self._conversation.last(side=False) < 0:
            refused = "it has no record of a conversation"
        found = self._shape, self._conversation
        return Header(
            harness=Harness.CLAUDE,
            id=self._path.stem,
            files=(SourceFile(path=str(self._path), role="subagent" if self._conversation.is_helper else "session"),),
            versions=tuple(self._shape.versions),
            cwds=tuple(self._shape.cwds),
            models=tuple(models),
            git_branch=last.gitBranch if last else None,
            title=title,
            first_prompt=prompt,
            started=first.timestamp if first else None,
            ended=last.timestamp if last else None,
            refused=refused,
            branches=() if self._tail else claude_beside.branches(*found, self._lookup, self._shift),
            subagents=claude_beside.helpers(*found, self._path.parent, self._side_files),
            side_files=self._side_files,
        )

    def _ends(self, nodes: Iterable[int]) -> Iterator[Record]:
        for _, node in zip(range(50), nodes, strict=False):
            rec = self._lookup.fetch(node)
            if rec is not None:
                yield rec
