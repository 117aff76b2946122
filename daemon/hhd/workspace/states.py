"""A capture together with the tree of its commit: every index entry, and everything that stands in the folder.

A capture holds differences only. What it means is decided here, once, for who writes it into a folder and for who
compares two captures; all names of the commit's tree are held to the same rules as those of the capture, because both
came over the network.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hhd_protocol.errors import FormatError, TooLargeError
from hhd_protocol.limits import WORKSPACE_ENTRIES_MAX
from hhd_protocol.workspace import MODES, Capture, Content, Entry, Flag, IndexEntry, Kind
from hhd_protocol.workspace_paths import check_path

FILE, EXECUTABLE, LINK, SUBMODULE = MODES

MODE_BITS = 0o777
"""What of a mode is taken over: neither setuid nor setgid nor the sticky bit."""


class What(enum.Enum):
    """What stands at a path."""

    FILE = "file"
    LINK = "link"
    FOLDER = "folder"
    """An empty one, or the place of a submodule."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """One thing in the folder, and where its bytes come from.

    `blob`: the object of git that holds them (a file's content, a link's target). Else `content` or `target`.
    `mode`: the nine permission bits, or None: as git makes files here, `executable` or not.
    """

    what: What
    executable: bool = False
    mode: int | None = None
    blob: bytes | None = None
    content: Content | None = None
    target: bytes = b""


@dataclass(frozen=True, kw_only=True, slots=True)
class Indexed:
    """One entry of the index. `as_index`: the folder holds just what it names."""

    path: bytes
    stage: int
    mode: int
    object: bytes
    flags: Flag
    as_index: bool


@dataclass(frozen=True, kw_only=True)
class State:
    """Everything of a folder: the index, ascending by path and stage, and the things in it by path."""

    index: tuple[Indexed, ...]
    nodes: Mapping[bytes, Node]

    def folders(self) -> set[bytes]:
        """Every folder that something stands in or that stands there itself."""
        found = {path for path, node in self.nodes.items() if node.what is What.FOLDER}
        for path in self.nodes:
            at = path.rfind(b"/")
            while at > 0 and (parent := path[:at]) not in found:
                found.add(parent)
                at = path.rfind(b"/", 0, at)
        return found


Tree = Mapping[bytes, tuple[int, bytes]]
"""The tree of a commit: mode and object by path."""


def parse_tree(raw: bytes, oid_bytes: int) -> dict[bytes, tuple[int, bytes]]:
    """Return the tree that `git ls-tree -r -z --full-tree` printed; raises FormatError for what no tree may hold."""
    tree: dict[bytes, tuple[int, bytes]] = {}
    records = raw.split(b"\0")
    if len(records) - 1 > WORKSPACE_ENTRIES_MAX:
        raise TooLargeError(f"the tree of the commit has more than {WORKSPACE_ENTRIES_MAX} entries")
    for record in records[:-1]:
        head, path = record.split(b"\t", 1)
        mode_text, _, oid_text = head.split(b" ")
        mode, oid = int(mode_text, 8), bytes.fromhex(oid_text.decode("ascii"))
        if mode not in MODES or len(oid) != oid_bytes:
            raise FormatError("the tree of the commit holds something of a mode that git does not write")
        check_path(path)
        if path in tree:
            raise FormatError("the tree of the commit names a path twice")
        tree[path] = (mode, oid)
    return tree


def state(capture: Capture, tree: Tree) -> State:
    """Return what `capture`, of a commit with `tree`, says about the folder.

    Raises FormatError for what cannot be: things below a file or a link, an index entry that differs from nothing.
    """
    changed = {entry.path: entry for entry in capture.entries}
    index = tuple(sorted(_index(capture, tree, changed), key=lambda one: (one.path, one.stage)))
    nodes: dict[bytes, Node] = {}
    for one in index:
        if one.as_index:
            nodes[one.path] = _indexed_node(one)
    for entry in capture.entries:
        if entry.kind is not Kind.GONE:
            nodes[entry.path] = _entry_node(entry)
    _insist_on_folders(nodes)
    return State(index=index, nodes=nodes)


def _index(capture: Capture, tree: Tree, changed: Mapping[bytes, Entry]) -> Iterator[Indexed]:
    own: dict[bytes, list[IndexEntry]] = {}
    for entry in capture.repository.index if capture.repository is not None else ():
        own.setdefault(entry.path, []).append(entry)
    for path, (mode, oid) in tree.items():
        if path not in own:
            yield Indexed(path=path, stage=0, mode=mode, object=oid, flags=Flag.NONE, as_index=path not in changed)
    for path, entries in own.items():
        for entry in entries:
            if not entry.mode:
                if path not in tree:
                    raise FormatError("the index lacks a path that the commit does not have either")
                continue
            there = entry.stage == 0 and not entry.flags & (Flag.SKIP_WORKTREE | Flag.INTENT_TO_ADD)
            yield Indexed(
                path=path,
                stage=entry.stage,
                mode=entry.mode,
                object=entry.object,
                flags=entry.flags,
                as_index=there and path not in changed,
            )


def _indexed_node(one: Indexed) -> Node:
    if one.mode == SUBMODULE:
        return Node(what=What.FOLDER)
    if one.mode == LINK:
        return Node(what=What.LINK, blob=one.object)
    return Node(what=What.FILE, executable=one.mode == EXECUTABLE, blob=one.object)


def _entry_node(entry: Entry) -> Node:
    if entry.kind is Kind.FILE:
        return Node(
            what=What.FILE, executable=bool(entry.mode & 0o100), mode=entry.mode & MODE_BITS, content=entry.content
        )
    if entry.kind is Kind.SYMLINK:
        return Node(what=What.LINK, target=entry.target)
    return Node(what=What.FOLDER)


def _insist_on_folders(nodes: Mapping[bytes, Node]) -> None:
    """Nothing stands below what is no folder: a link as a parent would be a way out."""
    good: set[bytes] = set()
    for path in nodes:
        at = path.rfind(b"/")
        while at > 0 and (parent := path[:at]) not in good:
            found = nodes.get(parent)
            if found is not None and found.what is not What.FOLDER:
                raise FormatError("something stands below a file or a link")
            good.add(parent)
            at = path.rfind(b"/", 0, at)


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One path that two states do not agree on: in `what` (the folder, the index), and how."""

    path: bytes
    what: str
    how: str


def differences(old: State, new: State) -> Iterator[Difference]:
    """Yield what changed from `old` to `new`, by path; contents are compared by their names."""
    paths = sorted(old.nodes.keys() | new.nodes.keys())
    for path in paths:
        if old.nodes.get(path) != new.nodes.get(path):
            yield Difference(path=path, what="folder", how=_how(path in old.nodes, path in new.nodes))
    was, now = _by_path(old.index), _by_path(new.index)
    for path in sorted(was.keys() | now.keys()):
        if was.get(path) != now.get(path):
            yield Difference(path=path, what="index", how=_how(path in was, path in now))


def _how(was: bool, now: bool) -> str:
    return "changed" if was and now else "added" if now else "removed"


def _by_path(index: tuple[Indexed, ...]) -> dict[bytes, list[tuple[int, int, bytes, Flag]]]:
    found: dict[bytes, list[tuple[int, int, bytes, Flag]]] = {}
    for one in index:
        found.setdefault(one.path, []).append((one.stage, one.mode, one.object, one.flags))
    return found
