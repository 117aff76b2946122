"""The shape of a Claude Code session, learnt in the first pass over its file: its tree, and what stands outside it."""

from __future__ import annotations

from collections.abc import Iterable

from hhd.native.claude_records import Head
from hhd.native.reading import collect
from hhd.native.tree import Tree
from hhd_protocol.transcript import Reason

TALK, SIDE, BOUNDARY, REPLY, ATTACHED = 1, 2, 4, 8, 16
"""Flags of a node."""

BRANCHES_MAX = 1000
_QUEUED_MAX = 10_000


class Shape:
    """What the first pass knows of every record, in some 18 bytes each."""

    def __init__(self) -> None:
        self.tree = Tree()
        self.boundaries: dict[int, Head] = {}
        """Compactions, by their nodes."""
        self.links: dict[int, int] = {}
        """By the node of a result that names its reply: the hash of that reply's id."""
        self.agents: dict[str, int] = {}
        """Helpers that records name, and how many each."""
        self.sides = 0
        self.queue: list[int] = []
        """Lines of what the person queued, and never was taken out."""
        self.prompt_leaf: str | None = None
        self.titles: dict[str, str] = {}
        self.cwds: list[str] = []
        self.versions: list[str] = []

    def note(self, line: int, found: Iterable[Head | Reason]) -> None:
        """Note the records of a block that begins at `line`."""
        tree = self.tree
        note_parent, note_hash = tree.parents.append, tree.hashes.append
        note_line, note_flags = tree.lines.append, tree.flags.append
        node = len(tree)
        last = tree.last
        cwd = version = None
        for head in found:
            if isinstance(head, Reason):
                line += 1
                continue
            own = head.uuid
            if own is None:
                self._loose(head, line)
                line += 1
                continue
            kind = head.type
            parent = head.parentUuid
            if kind == "assistant":
                flags = TALK | REPLY
            elif kind == "user":
                flags = TALK
                source = head.sourceToolAssistantUUID
                if source is not None and source != parent:
                    self.links[node] = hash(source)
            else:
                flags = self._flags(head, node)
            if head.isSidechain:
                flags |= SIDE
                self._helper_record(head)
            # This is `Tree.add`, written out: it runs once a record.
            if parent == last and parent is not None and flags != BOUNDARY:
                note_parent(node - 1)
            else:
                tree.branch(parent)
            note_hash(hash(own))
            note_line(line)
            note_flags(flags)
            last = own
            node += 1
            if head.cwd != cwd:
                cwd = head.cwd
                collect(self.cwds, cwd)
            if head.version != version:
                version = head.version
                collect(self.versions, version)
            line += 1
        tree.last = last

    def _flags(self, head: Head, node: int) -> int:
        if head.type == "attachment":
            return ATTACHED
        if head.type == "system" and head.subtype == "compact_boundary":
            self.boundaries[node] = head
            return BOUNDARY
        return 0

    def _helper_record(self, head: Head) -> None:
        self.sides += 1
        if head.agentId is not None and len(self.agents) < BRANCHES_MAX:
            self.agents[head.agentId] = self.agents.get(head.agentId, 0) + 1

    def _loose(self, head: Head, line: int) -> None:
        kind = head.type
        if kind == "last-prompt":
            if head.leafUuid is not None:
                self.prompt_leaf = head.leafUuid
        elif kind == "queue-operation":
            if head.operation == "enqueue":
                if len(self.queue) < _QUEUED_MAX:
                    self.queue.append(line)
            elif self.queue:
                self.queue.pop(0)
        elif title := (head.customTitle if kind == "custom-title" else head.aiTitle if kind == "ai-title" else None):
            self.titles[kind] = title
        elif kind == "summary" and head.summary:
            self.titles[kind] = head.summary
