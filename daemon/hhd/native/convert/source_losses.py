"""What of a source is no item, and therefore cannot come along: taken from its account, so that nothing is silent."""

from __future__ import annotations

from collections.abc import Iterator

from hhd_protocol.transcript import Account, At, Did, Header, Loss, LossKind, Reason, Tally, Verdict

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
"""The other reasons (doubles for the screen, usage, duplicates, blank lines) hold nothing that is not elsewhere."""


def source_losses(header: Header, account: Account) -> Iterator[Loss]:
    """The losses that come before any choice of a target."""
    for tally in account.tallies:
        if tally.verdict is Verdict.DAMAGED:
            yield _loss(tally, LossKind.DAMAGE, Did.LOST, f"lines that cannot be read ({tally.reason.value})")
        elif tally.verdict is Verdict.UNKNOWN:
            yield _loss(tally, LossKind.UNKNOWN, Did.LOST, "records of a kind that is not known here")
        elif tally.reason in _BY_REASON:
            yield _loss(tally, *_BY_REASON[tally.reason])
    yield from account.changes
    outside = sum(1 for helper in header.subagents if helper.path is not None)
    if outside:
        yield Loss(
            kind=LossKind.SUBAGENT, did=Did.LOST, why="conversations of helpers in files of their own", count=outside
        )


def _loss(tally: Tally, kind: LossKind, did: Did, why: str) -> Loss:
    first = tally.lines[0] if tally.lines else None
    source = At(first[0], first[1]) if first is not None else None
    return Loss(kind=kind, did=did, why=why, source=source, count=tally.records)
