"""What has to change in a folder to turn one state into another, found so that nothing else would be lost by it.

Every file that is to go is read and compared with what it is said to be; what stands in the way of something new, and
is not of the old state, stops the plan.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from hhd.base.beneath import Below, LinkInTheWay, parts_of
from hhd.workspace.errors import Meddled
from hhd.workspace.objects import Get, blob_id, pieces
from hhd.workspace.states import Node, State, What
from hhd.workspace.switch import MKDIR, REMOVE, RMDIR, Change, Seen, seen
from hhd.workspace.writing import same_file

_READ_CHUNK = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Changes in the order they are made, and after them what is to be put: where, what, instead of what."""

    changes: list[Change] = field(default_factory=list)
    put: list[tuple[bytes, Node, Seen | None]] = field(default_factory=list)


class Planner:
    """Finds what has to change from `old` to `new`, and that nothing else would be lost; any number of times."""

    def __init__(self, old: State, new: State, algorithm: str) -> None:
        self.algorithm = algorithm
        self.old, self.new = old.nodes, new.nodes
        self.new_folders = new.folders()
        self.touched = [
            path for path in sorted(self.old.keys() | self.new.keys()) if self.old.get(path) != self.new.get(path)
        ]

    def plan(self, folder: Path, get: Get) -> Plan:
        """Look at all that would change in `folder`; `get` has what is there now. Raises Meddled, LinkInTheWay."""
        with Below(folder) as self.below:
            self.get, self.device = get, os.fstat(self.below.fd).st_dev
            self.going: dict[bytes, Seen] = {}
            """Files and links that go, or are replaced, as they are now."""
            return self._plan()

    def _plan(self) -> Plan:
        plan, touched = Plan(), self.touched
        for path in touched:
            node = self.old.get(path)
            if node is not None and node.what is not What.FOLDER:
                self.going[path] = self._insist_on(path, node)
        for path in touched:
            wanted = self.new.get(path)
            if path in self.going and (wanted is None or wanted.what is What.FOLDER):
                plan.changes.append(Change(kind=REMOVE, path=path, before=self.going[path]))
        going = self._folders_that_go(touched)
        plan.changes.extend((*going, *self._folders_that_come(touched)))
        inodes = {one[0] for one in self.going.values()}
        leaving = {one.path for one in going if one.must}
        for path in touched:
            node = self.new.get(path)
            if node is None or node.what is What.FOLDER:
                continue
            before = self.going.get(path)
            if before is None:
                found = self._stat(path)
                if found is not None and path not in leaving and found.st_ino not in inodes:
                    raise Meddled(f"{os.fsdecode(path)!r} is in the way, and not of what hhd knows there.")
            plan.put.append((path, node, before))
        return plan

    def _stat(self, path: bytes) -> os.stat_result | None:
        """What is at `path`; None too where a file that goes stands above it."""
        try:
            return self.below.stat(parts_of(path))
        except LinkInTheWay:
            at = path.rfind(b"/")
            while at > 0:
                if path[:at] in self.going:
                    return None
                at = path.rfind(b"/", 0, at)
            raise

    def _insist_on(self, path: bytes, node: Node) -> Seen:
        """What is at `path`, which must be just what `node` says, down to the bytes."""
        parts = parts_of(path)
        found = self.below.stat(parts)
        if found is None or not same_file(found, node) or not self._same_bytes(path, node):
            raise Meddled(f"{os.fsdecode(path)!r} was changed by something else meanwhile.")
        self._insist_on_device(self.below.parent(parts), path)
        again = self.below.stat(parts)
        if again is None or seen(again) != seen(found):
            raise Meddled(f"{os.fsdecode(path)!r} was changed by something else meanwhile.")
        return seen(found)

    def _same_bytes(self, path: bytes, node: Node) -> bool:
        parts = parts_of(path)
        if node.what is What.LINK:
            target = self.below.read_link(parts)
            if node.blob is None:
                return target == node.target
            return blob_id(len(target), [target], self.algorithm) == node.blob
        fd = self.below.open(parts)
        with os.fdopen(fd, "rb") as file:
            size = os.fstat(fd).st_size
            if node.blob is not None:
                return blob_id(size, iter(lambda: file.read(_READ_CHUNK), b""), self.algorithm) == node.blob
            assert node.content is not None
            return size == node.content.size and all(
                file.read(len(piece)) == piece for piece in pieces(node.content, self.get)
            )

    def _insist_on_device(self, folder: int, path: bytes) -> None:
        if os.fstat(folder).st_dev != self.device:
            raise Meddled(f"{os.fsdecode(path)!r} is on another file system than the folder.")

    def _folders_that_go(self, touched: list[bytes]) -> list[Change]:
        """Folders that are empty afterwards and stand in no state: the deepest first."""
        found: dict[bytes, bool] = {}
        for path in touched:
            node = self.old.get(path)
            if node is None:
                continue
            if node.what is What.FOLDER and path not in self.new_folders:
                found[path] = path in self.new
            at = path.rfind(b"/")
            while at > 0 and (parent := path[:at]) not in found:
                if parent not in self.new_folders:
                    found[parent] = parent in self.new
                at = path.rfind(b"/", 0, at)
        changes = []
        for path in sorted(found, key=lambda one: (-one.count(b"/"), one)):
            there = self.below.stat(parts_of(path))
            if there is None or not stat.S_ISDIR(there.st_mode):
                continue
            if found[path]:
                self._insist_on_nothing_else(path, set(found))
            changes.append(Change(kind=RMDIR, path=path, before=seen(there), must=found[path]))
        return changes

    def _insist_on_nothing_else(self, path: bytes, folders: set[bytes]) -> None:
        """A folder that becomes a file holds only what goes anyway."""
        for name in _names(self.below, path):
            inner = path + b"/" + name
            if inner in self.going:
                continue
            there = self.below.stat(parts_of(inner))
            if there is None or not stat.S_ISDIR(there.st_mode) or inner not in folders:
                raise Meddled(f"{os.fsdecode(inner)!r} is in the way, and not of what hhd knows there.")
            self._insist_on_nothing_else(inner, folders)

    def _folders_that_come(self, touched: list[bytes]) -> list[Change]:
        """Folders that are missing for something new: the highest first."""
        known: set[bytes] = set()
        changes = []
        for path in touched:
            node = self.new.get(path)
            if node is None:
                continue
            for parent in _above(path, itself=node.what is What.FOLDER):
                if parent in known:
                    continue
                known.add(parent)
                there = self._stat(parent)
                if there is None or parent in self.going:
                    changes.append(Change(kind=MKDIR, path=parent))
                elif not stat.S_ISDIR(there.st_mode):
                    raise Meddled(f"{os.fsdecode(parent)!r} is in the way, and not of what hhd knows there.")
                elif there.st_dev != self.device:
                    raise Meddled(f"{os.fsdecode(parent)!r} is on another file system than the folder.")
        return changes


def _above(path: bytes, *, itself: bool) -> Iterator[bytes]:
    parts = path.split(b"/")
    for count in range(1, len(parts) + itself):
        yield b"/".join(parts[:count])


def _names(below: Below, path: bytes) -> list[bytes]:
    fd = below.enter(parts_of(path))
    if fd is None:
        return []
    listing = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=fd)
    try:
        return [os.fsencode(name) for name in os.listdir(listing)]
    finally:
        os.close(listing)
