"""What is said of files that appeared: what is not there, by its name."""

from __future__ import annotations

from hhd.workspace.states import State
from hhd.workspace.written import notes
from hhd_protocol.workspace import Capture, LeftOut, Reason


def said(*left_out: LeftOut, more: int = 0) -> tuple[str, ...]:
    capture = Capture(repository=None, entries=(), left_out=left_out, left_out_more=more)
    return notes(capture, State(index=(), nodes={}), shallow=False)


def test_what_stayed_though_nobody_said_so_is_named_and_what_git_ignores_is_not() -> None:
    ignored = LeftOut(path=b"build", reason=Reason.IGNORED, size=1)
    inner = LeftOut(path=b"in\nner", reason=Reason.REPOSITORY, size=0)
    assert said(ignored) == ()
    assert said(ignored, inner) == ("Stayed where it came from: in\\x0aner (a repository of its own).",)
    several = [LeftOut(path=b"p%d" % at, reason=Reason.SPECIAL, size=0) for at in range(4)]
    (found,) = said(*several, more=2)
    assert found.endswith("p2 (no plain file), 3 more.") and "p3" not in found


def test_each_reason_but_what_git_ignores_has_its_words() -> None:
    for reason in Reason:
        words = said(LeftOut(path=b"x", reason=reason, size=0))
        assert bool(words) is (reason is not Reason.IGNORED)
