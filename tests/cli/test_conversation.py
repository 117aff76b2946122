"""The transcript as a person reads it: what is shown, and that nothing in it reaches the terminal as a command."""

from __future__ import annotations

import io
import json

from hypothesis import given, settings
from hypothesis import strategies as st

from hhd.cli.conversation import Conversation, events
from hhd.cli.paint import Ink, Paper


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(*lines: object, whole: bool = False, spoken: str = "") -> str:
    target = io.StringIO()
    conversation = Conversation(paper=Paper.of(target), whole=whole, spoken=spoken)
    for line in lines:
        conversation.show(line if isinstance(line, bytes) else json.dumps(line).encode())
    return target.getvalue()


EDIT = {"event": "call", "id": "call_1", "name": "edit", "input": {"path": "a.py", "old": "x\ny", "new": "x\nz"}}


def test_a_conversation_reads_from_top_to_bottom() -> None:
    text = shown(
        {"event": "begin", "format": 1, "once": False},
        {"event": "user", "from": "prompt", "text": "fix it"},
        {"event": "text", "text": "I see."},
        EDIT,
        {"event": "call", "id": "call_2", "name": "bash", "input": {"command": "make test"}},
        {"event": "result", "id": "call_1", "output": "Edited.", "is_error": False, "ran": True},
        {"event": "result", "id": "call_2", "output": "boom\n[exit status 2]", "is_error": True, "ran": True},
        {"event": "stop", "reason": "max_tokens"},
    )
    assert text.splitlines() == [
        "> fix it",
        "I see.",
        "* edit a.py",
        "      x",
        "    - y",
        "    + z",
        "* bash make test",
        "  failed:",
        "  | boom",
        "  | [exit status 2]",
        "(the reply ended by max_tokens)",
    ]


def test_texts_that_were_streamed_are_not_written_twice() -> None:
    assert shown({"event": "text", "text": "I see."}, spoken="I see.") == ""
    assert shown({"event": "text", "text": "One."}, {"event": "text", "text": "Two."}, spoken="One.Two.") == ""
    assert shown({"event": "text", "text": "Go."}, {"event": "text", "text": "Go."}, spoken="Go.") == "Go.\n"


def test_a_text_of_which_only_the_end_was_heard_is_written_whole() -> None:
    assert shown({"event": "text", "text": "I see."}, spoken=" see.") == "I see.\n"


def test_a_long_output_is_shortened_unless_the_whole_is_wanted() -> None:
    call = {"event": "call", "id": "1", "name": "bash", "input": {"command": "seq 100"}}
    result = {"event": "result", "id": "1", "output": "\n".join(map(str, range(100))), "is_error": False}
    assert "... 88 lines more ..." in shown(call, result)
    assert "  | 50" in shown(call, result, whole=True)


def test_what_is_no_event_is_shown_as_a_line() -> None:
    assert shown(b"sum=42") == "sum=42\n"
    assert shown(b"[1]", b'{"event": 1}') == '[1]\n{"event": 1}\n'


def test_events_of_the_future_are_passed_over() -> None:
    assert shown({"event": "dream", "text": "x"}, {"event": "show"}, {"event": "change"}) == ""


def test_lines_are_the_same_however_the_pieces_are_cut() -> None:
    whole = b'{"event":"a"}\n\n{"event":"b"}\nlast'
    for size in range(1, len(whole) + 1):
        pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
        assert list(events(pieces)) == whole.split(b"\n")


HOSTILE = "\x1b]0;owned\x07\x1b[2J\u202eabc\r\x9b31m"


def test_no_text_of_a_transcript_moves_the_cursor() -> None:
    texts = ("text", "name", "output", "summary", "reason", "id", "type")
    kinds = ("user", "text", "thinking", "call", "result", "notice", "error", "compaction", "stop", "finished")
    given = dict.fromkeys(("command", "path", "pattern", "old", "new", "content", HOSTILE), HOSTILE)
    for kind in kinds:
        for name in ("bash", "edit", "write", "grep", "read", HOSTILE):
            event = {**dict.fromkeys(texts, HOSTILE), "event": kind, "input": given, "name": name, "is_error": True}
            out = shown(event, whole=True)
            assert out.isprintable() or set(out) - set(filter(str.isprintable, out)) <= set("\n\t")
    assert shown(HOSTILE.encode()).count("\x1b") == 0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
KEYS = ("text", "id", "name", "input", "output", "is_error", "status", "reason", "dropped", "summary")


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(
        ["user", "text", "thinking", "call", "result", "notice", "error", "compaction", "stop", "finished"]
    ),
    st.dictionaries(st.sampled_from(KEYS), JSON),
)
def test_no_nonsense_in_an_event_is_an_error(kind: str, fields: dict[str, object]) -> None:
    shown({**fields, "event": kind}, whole=True)


def test_colours_are_for_terminals_that_want_them() -> None:
    for target, environ, coloured in (
        (Terminal(), {"TERM": "xterm"}, True),
        (Terminal(), {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (Terminal(), {"TERM": "dumb"}, False),
        (Terminal(), {}, False),
        (io.StringIO(), {"TERM": "xterm"}, False),
    ):
        Paper.of(target, environ).line("words", Ink.ALARM)
        assert ("\x1b" in target.getvalue()) is coloured
