"""A capture prepared ahead to appear in a folder: all is written beside it, and only the switch is left to be made.

    one = materialise.prepare(...)      # long before: nothing of the folder is touched, its lock of git's is not held
    one.appear(get)                     # looked at again under that lock, then switched
    one.drop()                          # what is left of it goes, whether it appeared or not

Its stage has a name, and a record of its own, that never have the folder changed: whoever finds them after a crash
removes the stage. `appear` writes the record of the switch first, then looks, and lets it count by giving the stage the
name that stands in it; so a crash before that leaves the folder as it was, and one after it is carried on. Who else
writes into the folder through hhd meanwhile does not wait: then what was prepared does not fit, and is thrown away.
"""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

from hhd.base.beneath import LinkInTheWay
from hhd.base.box import Box
from hhd.base.errors import RefusedError
from hhd.workspace import new
from hhd.workspace.errors import LeftBetween, Meddled, Unready, unclean
from hhd.workspace.git import GitFailed
from hhd.workspace.in_place import begun, refusals
from hhd.workspace.index_file import UnreadableIndex
from hhd.workspace.objects import Get
from hhd.workspace.pending import Place, held
from hhd.workspace.work import Work
from hhd.workspace.written import Written
from hhd_protocol.errors import FormatError
from hhd_protocol.workspace import Capture

_FOUND = (Unready, Meddled, LinkInTheWay, UnreadableIndex)
"""What says that something is not as it was."""


class Ahead:
    """Of one folder and one capture. Not for several threads at a time; whichever has it may go on with it."""

    def __init__(self, capture: Capture, folder: Path, place: Place, kept: contextlib.ExitStack, box: Box) -> None:
        self.capture, self.folder = capture, folder
        self._place, self._kept, self._box = place, kept, box
        self._work: Work | None = None
        self._stage: Path | None = None
        """Of a new folder."""
        self._built: new.Built | None = None
        self._switched: Place | None = None
        self._dropped = False

    def prepare_in_place(self, get: Get, *, now: Capture, last: Capture | None, reason: str) -> None:
        """Prepare it for a folder that is as `now` says; raises as `in_place`, and Unready."""
        with refusals(self.folder):
            work = begun(self.capture, get, self.folder, now=now, last=last, reason=reason)
            work.begin(self._place, ahead=True)
            self._work = work
            work.prepare_ahead()

    def prepare_new(self, get: Get, *, borrow: Path | None) -> None:
        """Prepare it for where nothing is yet; raises as `into_new`."""
        self._stage = new.stage_of(self.folder)
        with new.refusals(self.folder):
            self._built = new.build(self.capture, get, self.folder, self._stage, self._place, borrow=borrow)

    def appear(self, get: Get) -> Written:
        """Make the switch; `get` gives what is there now. Raises Unready, with nothing changed, where it does not fit
        any more or cannot be begun; after that, as `in_place` or `into_new`."""
        try:
            place = self._kept.enter_context(held(self.folder, self._box))
            if place.load() is not None:
                raise Unready("something else was begun there")
            if self._built is not None:
                return new.show(self._built)
            assert self._work is not None
            self._switched = place
            self._work.record_ahead(place)
            self._work.lock()
            self._work.insist_on_as_it_was(get)
            self._work.uncover()
        except (
            Unready,
            RefusedError,
            Meddled,
            LinkInTheWay,
            UnreadableIndex,
            GitFailed,
            FormatError,
            OSError,
        ) as error:
            with contextlib.suppress(LeftBetween):  # What cannot be tidied up now is by the next start.
                self.drop()
            raise Unready(str(error)) from error
        with refusals(self.folder):
            written = self._work.make(place)
            self._work.unlock()  # Whoever works there from now on does not wait for the tidying up.
            return written

    def drop(self) -> None:
        """Leave nothing of it; again does nothing. Raises LeftBetween where that cannot be done now."""
        if self._dropped:
            return
        self._dropped, work = True, self._work
        with self._kept:
            try:
                if work is not None:
                    work.end(*(() if self._switched is None else (self._switched,)))
                if self._stage is not None:
                    shutil.rmtree(self._stage, ignore_errors=True)
                self._place.clear()
            except OSError as error:
                raise unclean(self.folder, error) from error
