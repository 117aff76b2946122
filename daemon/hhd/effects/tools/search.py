"""Starts the searching process, waits for its answer within bounds, and makes it a reply."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import hhd
from hhd.effects.cancel import Interrupted
from hhd.effects.confine import Inside
from hhd.effects.limits import OUTPUT_BYTES_MAX, SEARCH_ENTRIES_MAX, SEARCH_SECONDS_MAX
from hhd.effects.tools import searcher
from hhd.effects.tools.tool import Context, Reply, failed

_ANSWER_BYTES_MAX = 16 * 1024 * 1024
"""What a search may say: at most 1000 lines of 500 characters, with room for escapes."""


def search(kind: str, begin: Inside, asked: Mapping[str, object], context: Context, *, nothing: str) -> Reply:
    """Run one search from `begin`; `nothing` is the reply where nothing was found. Raises Interrupted, OSError."""
    request = {
        "kind": kind,
        "begin": begin.parts,
        "hidden": sorted(context.workspace.hidden),
        "entries_max": SEARCH_ENTRIES_MAX,
        "passed_over": context.passed_over,
        **asked,
    }
    raw = _answer(json.dumps(request).encode(), context)
    if raw is None:
        return failed(
            f"The search took more than {SEARCH_SECONDS_MAX:.0f} seconds and was ended: use a simpler pattern."
        )
    try:
        answer = json.loads(raw)
    except ValueError:
        return failed("The search ended without an answer: use a simpler pattern, or search a smaller folder.")
    if "refused" in answer:
        return failed(answer["refused"])
    return _reply(answer["lines"], answer["left_out"], nothing)


def _reply(lines: list[str], left_out: Mapping[str, int], nothing: str) -> Reply:
    shown, room = [], OUTPUT_BYTES_MAX - 500
    for line in lines:
        room -= len(line.encode("utf-8", "backslashreplace")) + 1
        if room < 0:
            left_out = {**left_out, "lines: there are more": 1}
            break
        shown.append(line)
    notes = [f"[left out: {why}{f' ({count})' if count > 1 else ''}]" for why, count in sorted(left_out.items())]
    return Reply(output="\n".join([*(shown or [nothing]), *notes]))


def _answer(request: bytes, context: Context) -> bytes | None:
    """What the process says, None if it took too long."""
    root = context.workspace.fd
    places = [str(Path(hhd.__file__).parent.parent), _folder_of_pathspec()]
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", str(Path(searcher.__file__)), str(root), *places],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        pass_fds=(root,), env={}, start_new_session=True,
    )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None
    try:
        with contextlib.suppress(BrokenPipeError), process.stdin:
            process.stdin.write(request)
        return _collect(process.stdout.fileno(), context)
    finally:
        process.kill()
        process.stdout.close()
        process.wait()


def _folder_of_pathspec() -> str:
    """Found without importing it: that takes 50 ms, and only the searching process needs it."""
    found = importlib.util.find_spec("pathspec")
    assert found is not None and found.origin is not None, "pathspec is a dependency of hhd"
    return str(Path(found.origin).parent.parent)


def _collect(out: int, context: Context) -> bytes | None:
    deadline, total = time.monotonic() + SEARCH_SECONDS_MAX, 0
    pieces: list[bytes] = []
    poll = select.poll()
    poll.register(out, select.POLLIN)
    poll.register(context.cancel.fileno(), select.POLLIN)
    while (left := deadline - time.monotonic()) > 0 and total < _ANSWER_BYTES_MAX:
        ready = {fd for fd, _ in poll.poll(1000 * left)}
        if context.cancel.is_set:
            raise Interrupted
        if out in ready:
            piece = os.read(out, 1024 * 1024)
            if not piece:
                return b"".join(pieces)
            pieces.append(piece)
            total += len(piece)
    return None
