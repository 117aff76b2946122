"""The verbs on workspaces: a folder captured, shown, compared, mapped, and a capture made to appear in a folder.

A capture is named by the begin of its id, by a folder that was captured, or by a session, whose head names one.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from hhd.base.errors import RefusedError, UsageError
from hhd.base.text import visible, visible_bytes
from hhd.node import findings, here, naming, unfinished
from hhd.node import store as door
from hhd.node.appearing import Appearing, place_of
from hhd.node.captures_here import SHOWN_MAX, Found
from hhd.node.workspace_answers import Applied, Differing, Kept, Mapped, Suspected, branch_of, hex_of, kept
from hhd.store.errors import DamagedStoreError
from hhd.store.folders import Folders
from hhd.store.store import Store
from hhd.workspace import identity
from hhd.workspace.capture import capture
from hhd.workspace.comparing import tree_of
from hhd.workspace.states import differences, state
from hhd.workspace.wanted import Wanted
from hhd_protocol.workspace import Capture


@dataclass(frozen=True, kw_only=True)
class Workspaces(Appearing):
    """The verbs, on the store of this device; `recovered` says what a crash had left and was ended at the start."""

    recovered: tuple[str, ...] = ()

    def capture(self, folder: Path, *, named: tuple[str, ...] = (), bytes_max: int | None = None) -> Kept:
        """Capture `folder` and remember it; raises RefusedError, FullStoreError.

        `named`: paths taken although they are ignored. `bytes_max`: of all files that are read.
        """
        top = self._top(folder)
        wanted = Wanted(named=frozenset(os.fsencode(one) for one in named))
        if bytes_max is not None:
            wanted = replace(wanted, bytes_max=bytes_max)
        commons = self.store.commons()
        with self.store.shelf.held():  # No session is advanced: `gc` cannot know that objects wait for their root.
            before = self._last(top, commons)
            try:
                known = None if before is None else before.reader.capture()
            except DamagedStoreError:  # `hhd check` names it; the folder is captured whole, as if for the first time.
                before = known = None
            writer = self.store.capture_writer(commons, None if before is None else before.reader.ref)
            made = capture(top, known, writer.put, wanted=wanted)
            with self.store.transaction():
                ref = writer.finish(made)
                Folders(self.store).note(top, commons, ref)
        new = sum(self.store.objects.size(name) for name in writer.made)
        return kept(made, ref, top, None, new_bytes=new)

    def show(self, name: str, *, at: str | None = None) -> Kept:
        """Return what the capture that `name` means holds; `at`: a checkpoint of the session that it means."""
        found = self._found(name, at)
        return kept(found.reader.capture(), found.reader.ref, found.folder, found.session)

    def diff(self, name: str, folder: Path | None = None, *, at: str | None = None) -> Differing:
        """Return what differs between the capture that `name` means and the folder it is of, or `folder`."""
        found = self._found(name, at)
        place = folder or found.folder
        if place is None:
            raise UsageError("This session has no folder here; say which with -C, or `hhd workspace map`.")
        top = self._top(place)
        old = found.reader.capture()
        now = capture(top, old, self._ids(found.family))
        changes = tuple(
            (one.what, one.how, visible_bytes(one.path))
            for one in differences(state(old, tree_of(top, old)), state(now, tree_of(top, now)))
        )
        was, here_now = old.repository, now.repository
        heads = (hex_of(was.head if was else None), hex_of(here_now.head if here_now else None))
        branches = (branch_of(was.branch if was else None), branch_of(here_now.branch if here_now else None))
        return Differing(
            capture=found.id,
            folder=visible(str(top), one_line=True),
            head=heads if heads[0] != heads[1] else None,
            branch=branches if branches[0] != branches[1] else None,
            changes=changes,
        )

    def map(self, name: str, folder: Path) -> Mapped:
        """Say that a session works in `folder` on this device; nothing in it is changed."""
        if not folder.is_dir():
            raise RefusedError(f"There is no folder {folder}; nothing was mapped.")
        session = naming.session(self.store, name)
        with self.store.transaction():
            noted = here.noted(self.store, session.id) or here.Note(place=None)
            here.note(self.store, session.id, replace(noted, folder=folder.resolve()))
        return Mapped(session=session.id.hex(), title=session.title, folder=str(folder.resolve()))

    def findings(self, name: str) -> Suspected:
        """Return where a session's captured files and texts look as if they held a credential."""
        session = naming.session(self.store, name)
        found = findings.findings(self.store, session.id)
        return Suspected(
            session=session.id.hex(),
            title=session.title,
            places=tuple((_where(one), one.line, one.kind) for one in found),
        )

    def apply(self, name: str, folder: Path | None, *, at: str | None = None) -> Applied:
        """Make the capture that `name` means appear in `folder`, or, where that would lose something, in one of ours.

        `folder` None: where the person mapped its session, else where hints say that its repository is.
        """
        with self.store.shelf.held():  # What is remembered of the folder in the end must still be here.
            found = self._found(name, at)
            return self._applied(found, place_of(folder or self._guess(found, found.reader.capture())))

    def _guess(self, found: Found, wanted: Capture) -> Path:
        """Where a capture belongs here; raises UsageError that asks where hints do not decide."""
        mapped = None
        if found.session is not None and (noted := here.noted(self.store, found.session)) is not None:
            mapped = noted.folder
        mapped = mapped or (found.folder if found.session is None else None)
        if mapped is not None or wanted.repository is None:
            if mapped is None:
                raise UsageError("Nothing says where this folder belongs here; give a DIR.")
            return mapped
        guess = identity.guess(wanted.repository, self._known())
        if guess.folder is not None:
            return guess.folder
        if guess.candidates:
            shown = ", ".join(visible(str(one), one_line=True) for one in guess.candidates[:SHOWN_MAX])
            raise UsageError(f"Several folders here may be this repository: {shown}; give one as DIR, or map one.")
        return self._ours(Path("workspace"), found)


def _where(one: findings.Finding) -> str:
    if one.path is None:
        return f"what was said or given at effect {one.position}"
    return visible_bytes(one.path) + (f" (after its first {one.piece} MiB)" if one.piece else "")


@contextlib.contextmanager
def opened() -> Iterator[Workspaces]:
    """The store, opened, and what a crash left in any folder ended first."""
    me = door.identity()
    with Store.open(door.store_folder(), seed=me.seed, limits=door.limits()) as store:
        yield Workspaces(store=store, me=me, recovered=unfinished.ended())
