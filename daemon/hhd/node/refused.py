"""Why a session cannot be gone on with here, as sentences, with the way on."""

from __future__ import annotations

from hhd.base.errors import RefusedError, UncertainError, UserError
from hhd.node.naming import ID_SHOWN
from hhd_protocol.crypto import device_text
from hhd_protocol.fencing import View
from hhd_protocol.holding import Refusal, WayOut, Why
from hhd_protocol.ids import SessionId


class FencedError(RefusedError):
    """Another device took the session over while it was advanced here."""


class AloneError(RefusedError):
    """No other device has answered since this one woke: it may go on once one has, or for a person who is here."""


def short(session: SessionId) -> str:
    """A session's id as it is shown and typed."""
    return session.hex()[:ID_SHOWN]


def refused(session: SessionId, refusal: Refusal, view: View) -> UserError:
    """The error for a door that stays shut."""
    words = f"Session {short(session)} cannot go on here: {refusal.words}{_owner(refusal, view)}."
    if refusal.why in (Why.UNCERTAIN, Why.OTHER_REQUEST):
        return UncertainError(f"{words} {_WAYS[WayOut.SETTLE]}")
    way = _WAYS.get(refusal.way_out, "")
    kind = AloneError if refusal.why is Why.ALONE else RefusedError
    return kind(f"{words} Nothing was changed.{' ' if way else ''}{way}")


def fenced(session: SessionId, view: View, *, closed: bool) -> FencedError:
    """The error for a session that was taken over meanwhile; `closed`: a closing checkpoint was written."""
    kept = "What was done here until then is kept as a head of its own" if closed else "All that was done here is kept"
    owner = "" if view.owner is None else f" ({device_text(view.owner)[:19]})"
    return FencedError(
        f"Another device{owner} has taken over session {short(session)}: nothing further was run here. {kept}; see all "
        f"with: hhd heads {short(session)}"
    )


def _owner(refusal: Refusal, view: View) -> str:
    if refusal.why is Why.NOT_OWNER and view.owner is not None:
        return f" ({device_text(view.owner)[:19]})"
    return ""


_WAYS = {
    WayOut.SYNC: "Connect a device that has what is missing.",
    WayOut.TAKE_OVER: "Take it over by going on from one of its heads here: hhd resume SESSION --head HEAD.",
    WayOut.TAKE_OVER_A_HEAD: "Choose one of its heads, and go on from it: hhd resume SESSION --head HEAD.",
    WayOut.RELOAD: "Go on with it anew.",
    WayOut.SETTLE: "Say what happened, with --ran OUTPUT, --did-not-run or --again.",
    WayOut.PERSON: "Connect another of your devices.",
}
