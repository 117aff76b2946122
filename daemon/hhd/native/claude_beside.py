"""What lies beside the conversation of a Claude Code session: branches, helpers, and the files of its folder."""

from __future__ import annotations

from pathlib import Path

import msgspec

from hhd.native.claude_lookup import Lookup
from hhd.native.claude_path import DEAD, Conversation
from hhd.native.claude_shape import ATTACHED, BOUNDARY, BRANCHES_MAX, SIDE, TALK, Shape
from hhd_protocol.transcript import At, Branch, Subagent

_SIDE_FILES_MAX = 10_000


def branches(shape: Shape, conversation: Conversation, lookup: Lookup, shift: int) -> tuple[Branch, ...]:
    """The lines of talk that were left; places are lines, moved by `shift`."""
    tree, state = shape.tree, conversation.state
    if state.find(DEAD) < 0:
        return ()
    roots: dict[int, int] = {}
    found: list[list[int]] = []
    node = -1
    while (node := state.find(DEAD, node + 1)) >= 0:
        if not tree.flags[node] & (TALK | ATTACHED | BOUNDARY):
            continue
        parent = tree.parents[node]
        number = roots.get(parent, -1)
        if number < 0:
            if len(found) >= BRANCHES_MAX:
                continue
            number = len(found)
            found.append([node])
        roots[node] = number
        if found[number][-1] != node:
            found[number].append(node)
    branches = []
    for nodes in found:
        talk = [node for node in nodes if tree.flags[node] & TALK]
        if not talk:
            continue
        first = lookup.fetch(talk[0])
        own = lookup.fetch(nodes[0])
        branches.append(
            Branch(
                at=At(0, tree.lines[talk[0]] + shift, first.uuid if first else None),
                from_record=own.parentUuid if own else None,
                records=len(talk),
                lines=tuple(tree.lines[node] + shift for node in talk[:256]),
            )
        )
    return tuple(branches)


def helpers(shape: Shape, conversation: Conversation, folder: Path, files: tuple[str, ...]) -> tuple[Subagent, ...]:
    """The helpers that records of the session name, and those that have `files` of their own in `folder`."""
    found = []
    if shape.sides and not conversation.is_helper:
        named = sum(shape.agents.values())
        inline = sum(1 for flags in shape.tree.flags if flags & SIDE and flags & TALK)
        for agent, records in shape.agents.items():
            found.append(Subagent(id=agent, path=None, records=records))
        if inline > named:
            found.append(Subagent(id="", path=None, records=inline - named))
    for name in files:
        if name.endswith(".jsonl") and "/subagents/" in name:
            meta = _meta(folder / (name[: -len(".jsonl")] + ".meta.json"))
            own = name.rsplit("/", 1)[1][len("agent-") : -len(".jsonl")]
            found.append(
                Subagent(
                    id=own,
                    path=name,
                    records=None,
                    call=meta.toolUseId,
                    type=meta.agentType,
                    description=meta.description,
                )
            )
    return tuple(found)


class _Meta(msgspec.Struct, gc=False):
    agentType: str | None = None
    description: str | None = None
    toolUseId: str | None = None


def _meta(path: Path) -> _Meta:
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(1 << 20), type=_Meta)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return _Meta()


def side_files(path: Path) -> tuple[str, ...]:
    """What lies in the session's own side folder, relative to the session's folder; links are not followed."""
    found: list[str] = []
    root = path.parent / path.stem
    folders = [root] if path.suffix == ".jsonl" and root.is_dir() and not root.is_symlink() else []
    while folders and len(found) < _SIDE_FILES_MAX:
        try:
            for entry in sorted(folders.pop().iterdir()):
                if entry.is_symlink():
                    continue
                if entry.is_dir() and len(entry.parts) - len(root.parts) < 8:
                    folders.append(entry)
                elif entry.is_file():
                    found.append(str(entry.relative_to(path.parent)))
        except OSError:
            continue
    return tuple(sorted(found))
