"""The captures of one session's folder while the session is driven here: taken when due, named by checkpoints.

A capture is due at the begin and after every effect that may have written. It is taken before the next checkpoint is
written, at most every two seconds (more rarely where one takes long), and always at a pause. In the pause of a handoff
one is due unless a look says that the folder is still as the last one has it, whoever wrote there. What cannot be
captured never stops a session: the checkpoint names the capture before, and the person is told once why.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from hhd.base.errors import RefusedError, UserError
from hhd.base.secret_scan import Suspect, suspects
from hhd.base.text import visible, visible_bytes
from hhd.node.findings import Finding, remember
from hhd.store.captures import CaptureReader, CaptureWriter, capture_ref, workspace_of
from hhd.store.errors import DamagedStoreError, MissingError
from hhd.store.store import Store
from hhd_protocol.ids import ObjectName, PageId, SessionId
from hhd_protocol.workspace import Capture, Content, Entry, IndexEntry

if TYPE_CHECKING:
    from hhd.workspace.memory import Memory

K = TypeVar("K")

NAMES_SHOWN = 3
"""Of files that changed while the session did not run."""

APART_SECONDS = 2.0
"""Between two captures, but for pauses (`handoff.md`, Workspace)."""

SHARE = 4
"""A capture that takes long is taken again after so many times as long: at most a fifth of the time goes into them."""

BYTES_MAX = 512 * 1024 * 1024
ENTRIES_MAX = 200_000
"""Of what is captured unasked. More is refused with a sentence: a person may still capture it by a command."""

TREES_BYTES_MAX = 32 * 1024 * 1024
"""Of what the remotes of its repository have: so much comes along once, for a device that knows no such repository. Of
a larger one it does not, and such a device is told to get it first."""


class Captures:
    """The captures of `session` in `folder`. `last`: what its newest checkpoint says; `say`: tells the person."""

    def __init__(
        self,
        store: Store,
        session: SessionId,
        folder: Path,
        *,
        last: bytes | None,
        say: Callable[[str], None],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._session, self._folder, self._say, self._now = store, session, folder, say, now
        self.workspace = last
        """What a checkpoint made now says."""
        self._compared = last is None
        """Whether the folder was compared with what the session knew of it before this process."""
        self._brought: list[ObjectName] = []
        self._due = True
        self._looks = False
        """Whether at a pause it is looked whether the folder is still as the last capture has it."""
        self._quieten: Callable[[], None] = lambda: None
        self.appearance: bytes | None = None
        """What the folder looked like before the last capture; None: a look could not tell."""
        self._not_before = 0.0
        self._said: str | None = None
        self._memory: Memory | None = None
        self._before: Capture | None = None
        self._suspects: dict[PageId, list[Suspect]] = {}

    def after_effect(self) -> None:
        """Something ran that may have written."""
        self._due = True

    def look_again(self, quieten: Callable[[], None] | None = None) -> None:
        """Somebody else may have written: from now on, at a pause, it is looked whether the folder differs.

        `quieten` is called before, from now on: it ends what would write there after that look.
        """
        self._looks, self._quieten = True, quieten or self._quieten

    def _differs(self) -> bool:
        """Whether the folder may be otherwise than the last capture has it."""
        from hhd.workspace.appearance import appearance

        return self.appearance is None or appearance(self._folder) != self.appearance

    def ahead(self) -> None:
        """Have a capture at hand before it is needed, where a look will be able to tell that it stands."""
        from hhd.workspace.appearance import appearance

        looks = appearance(self._folder)
        if looks is not None and looks != self.appearance:
            self._due = True
            self.take(pause=True)

    def take(self, *, pause: bool) -> None:
        """Take a capture if one is due and it is time for it; `pause`: it is time. Never raises a UserError."""
        began = self._now()
        if pause and self._looks:
            self._quieten()
            self._due = self._due or self._differs()
        if not self._due or (not pause and began < self._not_before):
            return
        try:
            self._capture()
            self._due, self._said = False, None
        except UserError as error:
            self._cannot(str(error))
        except OSError as error:  # The folder went away, a disk that fails, no git.
            self._cannot(f"{error.strerror or error} ({visible(str(error.filename or self._folder), one_line=True)}).")
        ended = self._now()
        self._not_before = ended + max(APART_SECONDS, SHARE * (ended - began))

    def _cannot(self, why: str) -> None:
        self._memory = self._before = self.appearance = None
        if why != self._said:
            self._said = why
            self._say(f"The files of this session are not captured: {why}")

    def brought(self) -> Sequence[ObjectName]:
        """Objects that came with captures since the last checkpoint that was written."""
        return tuple(self._brought)

    def written(self) -> None:
        """A checkpoint that names the capture and what it brought is durable."""
        self._brought = []

    def _capture(self) -> None:
        from hhd.workspace.appearance import appearance
        from hhd.workspace.capture import capture  # Not before one is due: a start is not slower.
        from hhd.workspace.memory import Memory
        from hhd.workspace.wanted import Wanted

        insist_on_own_folder(self._folder)
        family = self._store.session(self._session).family
        last = self._last()
        writer = self._store.capture_writer(family, None if last is None else last.ref)
        before = self._before if self._before is not None else None if last is None else last.capture()
        self._memory = self._memory or Memory()
        wanted = Wanted(published=True, trees_bytes_max=TREES_BYTES_MAX, bytes_max=BYTES_MAX, entries_max=ENTRIES_MAX)
        looks = appearance(self._folder)  # Before: what changes while it is captured looks otherwise later.
        made = capture(self._folder, before, lambda raw: self._put(writer, raw), memory=self._memory, wanted=wanted)
        with self._store.transaction():
            ref = writer.finish(made)
            remember(self._store, self._session, self._found(made, set(writer.new)))
        if not self._compared and before is not None and (words := _changed(before, made)):
            where = visible(str(self._folder), one_line=True)
            self._say(f"{where} is not as this session last knew it: {words}. It goes on with the files as they are.")
        self._compared = True
        self._suspects = {}
        self._brought += writer.made
        self.workspace, self._before, self.appearance = workspace_of(ref), made, looks

    def _last(self) -> CaptureReader | None:
        """The capture before, None if there is none, or it can no longer be read."""
        ref = capture_ref(self.workspace)
        if ref is None:
            return None
        try:
            reader = self._store.capture_reader(self._store.session(self._session).family, ref)
            if self._before is None:
                reader.capture()
            return reader
        except (MissingError, DamagedStoreError):
            self._memory = self._before = None
            return None

    def _put(self, writer: CaptureWriter, raw: bytes) -> PageId:
        count = len(writer.new)
        one = writer.put(raw)
        if len(writer.new) > count and (found := suspects(raw)):
            self._suspects[one] = found
        return one

    def _found(self, made: Capture, new: set[PageId]) -> list[Finding]:
        if not self._suspects:
            return []
        named = [(entry.path, entry.content) for entry in made.entries]
        if made.repository is not None:
            named += [(entry.path, entry.content) for entry in made.repository.index]
        return [one for path, content in named if content is not None for one in self._in_file(path, content, new)]

    def _in_file(self, path: bytes, content: Content, new: set[PageId]) -> list[Finding]:
        return [
            Finding(path=path, position=0, piece=number, line=one.line, kind=one.kind, content=piece)
            for number, piece in enumerate(content.pieces)
            if piece in new
            for one in self._suspects.get(piece, ())
        ]


def _changed(before: Capture, now: Capture) -> str:
    """What differs between two captures, in a few words; empty where nothing of the files does."""
    old, new = before.repository, now.repository
    if (old is None) != (new is None):
        return "it is another kind of folder"
    if old is not None and new is not None and old.head != new.head:
        return "it stands on another commit"
    paths = _apart({one.path: one for one in before.entries}, {one.path: one for one in now.entries})
    if old is not None and new is not None:
        paths |= _apart({(e.path, e.stage): e for e in old.index}, {(e.path, e.stage): e for e in new.index})
    shown = sorted(visible_bytes(path) for path in paths)
    more = f" and {len(shown) - NAMES_SHOWN} more" if len(shown) > NAMES_SHOWN else ""
    return f"{', '.join(shown[:NAMES_SHOWN])}{more} changed" if shown else ""


def _apart(old: Mapping[K, Entry | IndexEntry], new: Mapping[K, Entry | IndexEntry]) -> set[bytes]:
    """The paths at which two listings differ."""
    if old == new:
        return set()
    differing = {key for key in old.keys() | new.keys() if old.get(key) != new.get(key)}
    return {(old.get(key) or new[key]).path for key in differing}


def insist_on_own_folder(folder: Path) -> None:
    """Raise RefusedError where all of a person's files would be captured: that is not done unasked."""
    from hhd.workspace.place import find

    place, home = find(folder), Path.home().resolve()
    top = folder.resolve() if place is None else place.top
    if top == home or top in home.parents:
        raise RefusedError(
            "it works in your home folder, or above it; start it in a folder of its own to have files travel with it."
        )


def insist_on_capturable(folder: Path) -> None:
    """Raise RefusedError where a look, which reads no file, says that `folder` cannot be captured now.

    What only a capture finds (too many files, one that keeps changing) is not found by it.
    """
    from hhd.workspace.operation import insist_on_none_stuck
    from hhd.workspace.place import find

    try:
        insist_on_own_folder(folder)
        place = find(folder)
        if place is not None:
            insist_on_none_stuck(place)
    except OSError as error:
        raise RefusedError(f"{error.strerror or error} ({visible(str(folder), one_line=True)}).") from error
