"""Notes what processes of hhd do, for `tests.bench.bench_handoff_work`: put on PYTHONPATH, HHD_MARKS naming a file.

Python imports this before anything else. Where one of hhd's modules comes to be imported, what is of interest in it is
wrapped: each call is a line in the file with its begin and end by the clock that all processes of a machine share, and
the processor time of its thread. Nothing of hhd knows of it.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

FILE = os.environ.get("HHD_MARKS", "")
_HOST = os.environ.get("HHD_LAB_HOST", "")
_OPENED: list[int] = []


def note(what: str, name: str, begin: int, end: int, cpu_ns: int) -> None:
    """Write one line, whole: many processes write into the file."""
    if not _OPENED:
        _OPENED.append(os.open(FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600))
    thread = threading.current_thread().name
    line = json.dumps([_HOST, os.getpid(), thread, what, name, begin, end, cpu_ns])
    os.write(_OPENED[0], line.encode() + b"\n")


def _timed(what: str, name: str, act: Callable[..., Any], naming: Callable[..., str] | None = None) -> Any:
    @functools.wraps(act)
    def noted(*given: Any, **more: Any) -> Any:
        begin, cpu = time.monotonic_ns(), time.thread_time_ns()
        try:
            return act(*given, **more)
        finally:
            said = name if naming is None else naming(*given, **more)
            note(what, said, begin, time.monotonic_ns(), time.thread_time_ns() - cpu)

    return noted


def _awaited(what: str, name: str, act: Callable[..., Any], naming: Callable[..., str] | None = None) -> Any:
    @functools.wraps(act)
    async def noted(*given: Any, **more: Any) -> Any:
        begin = time.monotonic_ns()
        try:
            return await act(*given, **more)
        finally:
            said = name if naming is None else naming(*given, **more)
            note(what, said, begin, time.monotonic_ns(), 0)

    return noted


def _wrap(owner: Any, name: str, what: str, naming: Callable[..., str] | None = None, *, awaited: bool = False) -> None:
    act = getattr(owner, name)
    label = f"{getattr(owner, '__name__', '').rpartition('.')[2]}.{name}"
    setattr(owner, name, (_awaited if awaited else _timed)(what, label, act, naming))


def _store(module: ModuleType) -> None:
    opened = module.Store.open.__func__
    module.Store.open = classmethod(_timed("open", "Store.open", opened))
    _wrap(module.Store, "close", "close")


def _database(module: ModuleType) -> None:
    enter, leave = module.Database.enter, module.Database.leave

    def entering(self: Any) -> None:
        if self._depth:
            enter(self)
            return
        _timed("begin", "BEGIN", enter)(self)
        self._marks_since = time.monotonic_ns(), time.thread_time_ns(), self._connection.total_changes

    def leaving(self: Any, *, failed: bool) -> None:
        if self._depth != 1:
            leave(self, failed=failed)
            return
        changed = self._connection.total_changes != self._marks_since[2]
        name = "undone" if failed else "COMMIT" if changed or self._changes else "empty"
        try:
            _timed("commit", name, leave)(self, failed=failed)
        finally:
            begin, cpu, _ = self._marks_since  # Set by the outermost `entering`.
            note("transaction", name, begin, time.monotonic_ns(), time.thread_time_ns() - cpu)

    module.Database.enter, module.Database.leave = entering, leaving


def _resolve(module: ModuleType) -> None:
    _wrap(module.Resolved, "_sorted", "judge")


def _lineages(module: ModuleType) -> None:
    _wrap(module, "lineage_of", "lineage")


def _turns(module: ModuleType) -> None:
    def stage(self: Any, going: Any, after: Any) -> str:
        return f"{after.side.value}.{after.stage.value}"

    _wrap(module.Turns, "_now", "stage", stage)
    _wrap(module.Turns, "begun", "act")


def _acts(module: ModuleType) -> None:
    for name in ("check", "stage", "pause", "load", "open", "clean"):
        _wrap(module.Acts, name, "act", awaited=True)


def _rehearsal(module: ModuleType) -> None:
    for name in ("ask", "_loaded", "_files", "wait_for_files", "drop", "load"):
        _wrap(module.Rehearsal, name, "act", awaited=True)


def _ways(module: ModuleType) -> None:
    for name in ("read", "store"):
        _wrap(module.Ways, name, name, awaited=True)

    def said(self: Any, peer: Any, message: Any) -> str:
        return f"say {type(message).__name__}"

    _wrap(module.Ways, "send", "say", said, awaited=True)


def _steps(module: ModuleType) -> None:
    for name in (
        "offer_of", "fit", "head_of", "main_of", "load", "persist", "sign", "take", "news", "opened", "look", "ready",
        "bring",
    ):  # fmt: skip
        _wrap(module, name, "step")


def _held_back(module: ModuleType) -> None:
    for name in ("hold", "let_run", "every"):
        _wrap(module, name, "step")


def _workers(module: ModuleType) -> None:
    for name in ("start", "look", "ready", "halt"):
        _wrap(module.Workers, name, "act", awaited=True)


def _syncing(module: ModuleType) -> None:
    _wrap(module.Syncing, "wait_synced", "act", awaited=True)


def _capture(module: ModuleType) -> None:
    _wrap(module, "capture", "files")


def _appearance(module: ModuleType) -> None:
    _wrap(module, "appearance", "files")


def _ahead(module: ModuleType) -> None:
    for name in ("prepare_in_place", "prepare_new", "appear", "drop"):
        _wrap(module.Ahead, name, "files")


def _work(module: ModuleType) -> None:
    for name in (
        "begin", "prepare_ahead", "record_ahead", "lock", "insist_on_as_it_was", "uncover", "make", "unlock", "end",
    ):  # fmt: skip
        if hasattr(module.Work, name):
            _wrap(module.Work, name, "files")


def _captures_kept(module: ModuleType) -> None:
    _wrap(module.CaptureWriter, "finish", "files")
    _wrap(module.CaptureReader, "__init__", "files")
    _wrap(module.CaptureReader, "capture", "files")


def _status(module: ModuleType) -> None:
    _wrap(module, "status", "files")


def _materialise(module: ModuleType) -> None:
    for name in ("materialise", "prepare"):
        _wrap(module, name, "files")


def _opening(module: ModuleType) -> None:
    _wrap(module, "driven", "worker")


def _worker(module: ModuleType) -> None:
    _wrap(module, "_begun", "worker")
    _wrap(module._Face, "opened", "worker")
    _wrap(module._Face, "_pause", "worker")


def _captures(module: ModuleType) -> None:
    def paused(self: Any, *, pause: bool) -> str:
        return f"Captures.take pause={pause}"

    _wrap(module.Captures, "take", "files", paused)
    _wrap(module.Captures, "_capture", "files")
    _wrap(module.Captures, "_last", "files")
    _wrap(module, "insist_on_own_folder", "files")


def _stored_session(module: ModuleType) -> None:
    for name in ("__init__", "save", "rest", "close"):
        _wrap(module.StoreKeeper, name, "worker")


def _handoffs(module: ModuleType) -> None:
    before = module.Handoffs.transfer

    @functools.wraps(before)  # Its arguments are read off it.
    async def transfer(self: Any, *given: Any, **more: Any) -> Any:
        begin = time.monotonic_ns()
        note("act", "Handoffs.transfer asked", begin, begin, 0)
        async for one in before(self, *given, **more):
            now = time.monotonic_ns()
            note("told", one.stage + (" over" if one.over else ""), now, now, 0)
            yield one
        note("act", "Handoffs.transfer", begin, time.monotonic_ns(), 0)

    module.Handoffs.transfer = transfer


_AFTER = {
    "hhd.store.store": _store,
    "hhd.store.database": _database,
    "hhd_protocol.fencing.resolve": _resolve,
    "hhd.node.lineages": _lineages,
    "hhd.node.handoff.turns": _turns,
    "hhd.node.handoff.acts": _acts,
    "hhd.node.handoff.rehearsal": _rehearsal,
    "hhd.node.handoff.ways": _ways,
    "hhd.node.handoff.steps": _steps,
    "hhd.node.handoff.held_back": _held_back,
    "hhd.node.workers": _workers,
    "hhd.node.sync.syncing": _syncing,
    "hhd.node.handoff.handoffs": _handoffs,
    "hhd.node.captures": _captures,
    "hhd.node.stored_session": _stored_session,
    "hhd.node.opening": _opening,
    "hhd.node.worker": _worker,
    "hhd.workspace.capture": _capture,
    "hhd.workspace.appearance": _appearance,
    "hhd.store.captures": _captures_kept,
    "hhd.workspace.status": _status,
    "hhd.workspace.ahead": _ahead,
    "hhd.workspace.work": _work,
    "hhd.workspace.materialise": _materialise,
}


class _Loader(importlib.abc.Loader):
    def __init__(self, loader: Any, after: Callable[[ModuleType], None]) -> None:
        self._loader, self._after = loader, after

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self._loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._after(module)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        after = _AFTER.get(fullname)
        if after is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, after)
        return spec


def _git(event: str, given: tuple[Any, ...]) -> None:
    if event == "subprocess.Popen":
        now = time.monotonic_ns()
        words = given[1] if isinstance(given[1], list | tuple) else [given[1]]
        note("process", " ".join(str(one) for one in words)[:200], now, now, 0)


if FILE:
    note("process", "python " + " ".join(sys.orig_argv[1:4]), time.monotonic_ns(), time.monotonic_ns(), 0)
    for _name in ("fsync", "fdatasync"):
        setattr(os, _name, _timed("fsync", _name, getattr(os, _name)))
    sys.addaudithook(_git)
    sys.meta_path.insert(0, _Finder())
