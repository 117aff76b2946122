"""Blocks of a Claude Code session that are likely to be sent whole: their items are made in the first pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hhd.native.claude_items import Translator
from hhd.native.claude_records import LOOSE, Record
from hhd.native.source import Block
from hhd_protocol.transcript import AccountBook, Item, Reason, Row, Verdict


@dataclass(slots=True)
class Ready:
    """A block as it will be given if all its records turn out to be on the path."""

    items: list[Item]
    book: AccountBook
    queue: list[int]
    begin: int
    end: int
    """Its nodes: from `begin`, before `end`."""


def attachment(name: str) -> tuple[Verdict, Reason, str]:
    """What becomes of an attachment."""
    reason = Reason.QUEUED if name == "queued_command" else Reason.VENDOR_TEXT
    return Verdict.RECOGNISED, reason, f"attachment/{name}"


def loose(kind: str) -> tuple[Verdict, Reason, str]:
    """What becomes of a record outside the tree."""
    return (*LOOSE.get(kind, (Verdict.UNKNOWN, Reason.UNKNOWN_TYPE)), kind)


def make_ready(
    translator: Translator, block: Block, records: Sequence[Record | Reason], nodes: tuple[int, int]
) -> Ready | None:
    """The items of a block whose nodes are from the first of `nodes`, before the second; None if not all is talk."""
    book = AccountBook()
    items: list[Item] = []
    queue: list[int] = []
    replies, requests = (book.row(Verdict.USED, Reason.ITEM, kind) for kind in ("assistant", "user"))
    attached: dict[str, Row] = {}
    line = block.first_line
    for rec in records:
        if isinstance(rec, Reason) or rec.isSidechain or rec.isCompactSummary:
            return None
        kind = rec.type
        if rec.uuid is None:
            if kind == "queue-operation":
                queue.append(line)
            elif kind in ("user", "assistant"):
                return None
            else:
                book.add(*loose(kind), line)
        elif kind == "assistant":
            before = len(items)
            translator.assistant(rec, line, True, items)
            if len(items) > before:
                replies.add(line)
            else:
                book.add(Verdict.RECOGNISED, Reason.EMPTY, kind, line)
        elif kind == "user":
            before = len(items)
            translator.user(rec, line, True, items)
            if len(items) > before:
                requests.add(line)
            else:
                book.add(Verdict.RECOGNISED, Reason.EMPTY, kind, line)
        elif kind == "attachment":
            name = rec.attachment.type if rec.attachment else ""
            row = attached.get(name)
            if row is None:
                row = attached[name] = book.row(*attachment(name))
            row.add(line)
        else:
            return None
        line += 1
    return Ready(items=items, book=book, queue=queue, begin=nodes[0], end=nodes[1])
