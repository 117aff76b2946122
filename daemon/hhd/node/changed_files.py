"""Which files changed between two checkpoints of a session, whoever changed them: out of the captures that they name.

What a command did is in no tool call's input, but it is in the folder.
"""

from __future__ import annotations

from hhd.base.errors import UserError
from hhd.node import here
from hhd.store.checkpoints import capture_ref
from hhd.store.store import Store
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import SessionId

CAPTURES, CALLS = "captures", "calls"
"""Where a list of files is from: captures, or the write and edit calls that did not fail."""


def changed(store: Store, session: SessionId, before: bytes | None, after: bytes | None) -> tuple[str, ...] | None:
    """Return the paths that differ between the captures that two checkpoints name (`Checkpoint.workspace`), ascending.

    None where there are no two captures, or they cannot be read or compared here.
    """
    refs = [ref for ref in map(capture_ref, (before, after)) if ref is not None]
    if len(refs) < 2:
        return None
    if refs[0] == refs[1]:
        return ()
    from hhd.node.comparing_captures import differing  # With all of workspace: many sessions have no captures.

    try:
        family = store.session(session).family
        readers = [store.capture_reader(family, ref) for ref in refs]
        old, new = (one.capture() for one in readers)
        noted = here.noted(store, session)
        paths = differing(old, new, readers, None if noted is None else noted.folder)
    except (UserError, FormatError, OSError):
        return None
    return tuple(path.decode("utf-8", "backslashreplace") for path in paths)
