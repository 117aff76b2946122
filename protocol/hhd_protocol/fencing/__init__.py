"""Who may advance a session, computed anew from the whole set of statements (`protocol/spec/fencing.md`).

Nothing here depends on the order in which statements came, on a clock or on a server: two devices that hold the same
set name the same owner, the same heads and the same uncertain effects. `resolve` is the third of the three doors; the
other two (appending, and starting an effect) ask its answer for `token`.

The way chosen: four passes over the set, each a small class that knows only those before it: revocations (`cutoffs`),
records (`chain`), checkpoints (`graph`), effects (`doubts`). Rejected: updating a state as statements come, since a
late statement may undo what an early one meant, and a second code path for that is a second meaning. `Resolved` makes
one exception, for what a running session adds to its own line, and a test compares the two over random histories.
"""

from hhd_protocol.fencing.removal import uncovered, valid_tombstones
from hhd_protocol.fencing.resolve import Resolved, resolve
from hhd_protocol.fencing.view import Standing, Token, View

__all__ = ["Resolved", "Standing", "Token", "View", "resolve", "uncovered", "valid_tombstones"]
