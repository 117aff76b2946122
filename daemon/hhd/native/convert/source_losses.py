"""What of a source is no item, and therefore cannot come along: taken from its account, so that nothing is silent."""

from __future__ import annotations

from collections.abc import Iterator

from hhd.native.convert.places import PLACES
from hhd_protocol.transcript import Account, At, Did, Harness, Header, Loss, LossKind, Reason, Tally, Verdict

_BY_REASON = {
    Reason.DEAD_BRANCH: (LossKind.BRANCH, Did.LOST, "records of a line of conversation that was left"),
    Reason.ROLLED_BACK: (LossKind.BRANCH, Did.LOST, "records of turns that were taken back"),
    Reason.SIDECHAIN: (LossKind.SUBAGENT, Did.LOST, "records of a helper's own conversation"),
    Reason.BETWEEN_AGENTS: (LossKind.SUBAGENT, Did.LOST, "messages between agents"),
    Reason.QUEUED: (LossKind.QUEUED, Did.LEFT_OUT, "input typed ahead; it was never sent, or another record holds it"),
    Reason.VENDOR_TEXT: (LossKind.PRIVILEGED, Did.LEFT_OUT, "system, developer or client text"),
    Reason.SETTINGS: (LossKind.PRIVILEGED, Did.LEFT_OUT, "settings: models, permissions, sandbox"),
    Reason.FOREIGN_META: (LossKind.PRIVILEGED, Did.LEFT_OUT, "a second head, copied from another session"),
}
_BY_KIND = {
    (Harness.PI, "label"): (LossKind.NOTE, Did.LOST, "labels that the person put on records"),
    (Harness.PI, "custom"): (LossKind.NOTE, Did.LOST, "data that extensions keep in the session"),
}
"""Records that no client sends, and that are somebody's work all the same."""

TITLE_CHARS_MAX = 200
"""Longer titles are cut: lists show less than that."""


def source_losses(header: Header, account: Account, target: Harness, side_files: int) -> Iterator[Loss]:
    """The losses outside the items on the way to `target`; `side_files`: how many side files results have named."""
    for tally in account.tallies:
        if tally.verdict is Verdict.DAMAGED:
            yield _loss(tally, LossKind.DAMAGE, Did.LOST, f"lines that cannot be read ({tally.reason.value})")
        elif tally.verdict is Verdict.UNKNOWN:
            yield _loss(tally, LossKind.UNKNOWN, Did.LOST, "records of a kind that is not known here")
        elif tally.reason in _BY_REASON:
            yield _loss(tally, *_BY_REASON[tally.reason])
        elif (
            own := _BY_KIND.get((header.harness, tally.kind.partition("/")[0]))
        ) and tally.verdict is not Verdict.USED:
            yield _loss(tally, *own)
    yield from account.changes
    outside = sum(1 for helper in header.subagents if helper.path is not None)
    if outside:
        yield Loss(
            kind=LossKind.SUBAGENT, did=Did.LOST, why="conversations of helpers in files of their own", count=outside
        )
    unnamed = sum(1 for name in header.side_files if "/subagents/" not in name) - side_files
    if unnamed > 0:
        why = "side files that no result names, kept with the original"
        yield Loss(kind=LossKind.SIDE_FILE, did=Did.LOST, why=why, count=unnamed)
    if header.title and not PLACES[target].titles:
        yield Loss(kind=LossKind.TITLE, did=Did.LOST, why="the title has no place in the file", source=None)
    elif header.title and len(header.title) > TITLE_CHARS_MAX:
        why = f"the title was cut to {TITLE_CHARS_MAX} characters"
        yield Loss(kind=LossKind.TITLE, did=Did.CHANGED, why=why, source=None)


def _loss(tally: Tally, kind: LossKind, did: Did, why: str) -> Loss:
    first = tally.lines[0] if tally.lines else None
    source = At(first[0], first[1]) if first is not None else None
    return Loss(kind=kind, did=did, why=why, source=source, count=tally.records)
