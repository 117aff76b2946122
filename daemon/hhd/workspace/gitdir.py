"""Files of a repository's own folder that a capture decides: the operation in progress, sparse patterns, shallow marks.

Everything else in there (config, hooks, attributes, alternates, links of worktrees) is this device's and never travels.
"""

from __future__ import annotations

from collections.abc import Iterable

from hhd_protocol.workspace import Operation, OperationKind, Repository

OPERATION_FILES = (b"MERGE_HEAD", b"MERGE_MODE", b"MERGE_MSG", b"SQUASH_MSG", b"CHERRY_PICK_HEAD", b"REVERT_HEAD")
"""What says that an operation is in progress."""
REFUSED = (b"rebase-merge", b"rebase-apply", b"sequencer", b"BISECT_LOG")
"""What says that one is, which is not carried: a folder with it is never written to."""


def operation_files(operation: Operation | None) -> dict[bytes, bytes]:
    """The files that `operation` has in the repository's folder."""
    if operation is None:
        return {}
    heads = b"".join(head.hex().encode() + b"\n" for head in operation.heads)
    if operation.kind is OperationKind.MERGE:
        mode = b"no-ff" if operation.no_ff else b""
        return {b"MERGE_HEAD": heads, b"MERGE_MODE": mode, b"MERGE_MSG": operation.message}
    if operation.kind is OperationKind.SQUASH:
        return {b"SQUASH_MSG": operation.message}
    name = {OperationKind.CHERRY_PICK: b"CHERRY_PICK_HEAD", OperationKind.REVERT: b"REVERT_HEAD"}[operation.kind]
    return {name: heads, b"MERGE_MSG": operation.message}


def sparse_settings(repository: Repository) -> list[tuple[str, str]]:
    """The settings of a repository of ours that is sparse as the captured one was."""
    if repository.sparse is None:
        return []
    return [("core.sparseCheckout", "true"), ("core.sparseCheckoutCone", str(repository.sparse.cone).lower())]


def shallow_file(commits: Iterable[bytes]) -> bytes:
    """The file that says whose parents are not here."""
    return b"".join(commit.hex().encode() + b"\n" for commit in sorted(set(commits)))
