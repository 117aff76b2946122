"""What the verbs on workspaces answer, in plain values: captures kept, compared, mapped, and made to appear."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hhd.base.text import visible, visible_bytes
from hhd_protocol.ids import SessionId
from hhd_protocol.objects import Ref
from hhd_protocol.workspace import Capture


@dataclass(frozen=True, kw_only=True)
class Kept:
    """A capture in the store, said in plain values. `new_bytes`: what it took that was not here; 0 when only shown."""

    capture: str
    folder: str
    session: str
    kind: str
    head: str
    branch: str
    operation: str
    index: int
    entries: int
    bytes: int
    packs: int
    left_out: tuple[tuple[str, str], ...]
    left_out_more: int
    new_bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class Differing:
    """What differs between a capture and the folder; each change is (where: folder or index, how, path)."""

    capture: str
    folder: str
    head: tuple[str, str] | None
    branch: tuple[str, str] | None
    changes: tuple[tuple[str, str, str], ...]

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        return not (self.changes or self.head or self.branch)


@dataclass(frozen=True, kw_only=True)
class Suspected:
    """What looks like a credential in a session: `places` are (where, line, kind), never the credential itself."""

    session: str
    title: str
    places: tuple[tuple[str, int, str], ...]


@dataclass(frozen=True, kw_only=True)
class Mapped:
    """A session works in `folder` on this device."""

    session: str
    title: str
    folder: str


@dataclass(frozen=True, kw_only=True)
class Applied:
    """A capture appeared in `folder`. `instead`: why it is not the folder that was asked for, empty if it is."""

    capture: str
    folder: str
    in_place: bool
    instead: str
    notes: tuple[str, ...]


def kept(made: Capture, ref: Ref, folder: Path | None, session: SessionId | None, *, new_bytes: int = 0) -> Kept:
    """The capture `made`, kept as `ref`, in words; `new_bytes`: what it took that was not here."""
    repository = made.repository
    operation = repository.operation if repository is not None else None
    return Kept(
        capture=ref.name.hex(),
        folder="" if folder is None else visible(str(folder), one_line=True),
        session="" if session is None else session.hex(),
        kind="folder" if repository is None else "repository",
        head=hex_of(repository.head if repository is not None else None),
        branch=branch_of(repository.branch if repository is not None else None),
        operation="" if operation is None else operation.kind.value,
        index=0 if repository is None else len(repository.index),
        entries=len(made.entries),
        bytes=sum(one.size for one in made.contents()),
        packs=0 if repository is None else len(repository.history.packs),
        left_out=tuple((visible_bytes(one.path), one.reason.name.lower()) for one in made.left_out),
        left_out_more=made.left_out_more,
        new_bytes=new_bytes,
    )


def hex_of(commit: bytes | None) -> str:
    """A commit as it is shown, "" for none."""
    return "" if commit is None else commit.hex()


def branch_of(branch: bytes | None) -> str:
    """The full name of a branch as it is shown, "" for none."""
    return "" if branch is None else visible_bytes(branch.removeprefix(b"refs/heads/"))
