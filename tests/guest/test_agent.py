"""The agent as it is shipped: what it asks, what it emits, and that no cut of its run shows."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from tests.guest.agent_host import Replies, agent_module, encoded_args, events, snapshots_at_effects
from tests.runtime.runs import Ended, assert_finished_alike, cut, whole

from hhd.runtime.guest import Guest
from hhd.runtime.outcomes import Failed, Finished, Slice


def says(text: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "stop_reason": "end_turn", **more}


def calls(*inputs: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    blocks = [{"type": "tool_use", "id": "x", "name": name, "input": given} for name, given in inputs]
    return {"content": blocks, "stop_reason": "tool_use", "usage": {"input_tokens": 900, "output_tokens": 40}}


def working_session() -> Replies:
    """A session that meets most of what can happen: parallel calls, errors, steering, a move, a compaction."""
    return Replies(
        model=[
            calls(("glob", {"pattern": "**/*.py"}), ("bash", {"command": "pytest -q"})),
            calls(("read", {"path": "calc.py"}), ("nonsense", {}), ("bash", {"command": 5})),
            {"error": {"type": "overloaded_error", "message": "Overloaded"}, "status": 529},
            calls(("edit", {"path": "calc.py", "old": "a - b", "new": 'a + b \\ "ä" \U0001f600'})),
            {**says("Half of a rep"), "stop_reason": "max_tokens"},
            {**calls(("bash", {"command": "pytest -q"})), "usage": {"input_tokens": 7900}},
            says("They asked to fix add; calc.py was edited."),
            says("Fixed.", moved=True),
            says("You are welcome."),
        ],
        tool=[
            {"output": "calc.py\ntest_calc.py"},
            {"output": "1 failed\n" + "assert add(2, 2) == 4\n" * 200, "is_error": True, "steering": ["be quick"]},
            {"output": "def add(a, b):\n    return a - b\n", "moved": True},
            {"output": "edited calc.py"},
            {"output": "2 passed"},
        ],
        input=[{"text": ""}, {"text": "thanks"}, {"end": True}],
        machine=[
            {"system": "Linux x86_64", "tools": ["git"], "date": "2026-11-29"},
            {"system": "Linux aarch64", "tools": ["git"], "date": "2026-11-29"},
        ],
        notes="Run the tests with pytest -q.",
    )


SESSION_ARGS = encoded_args(prompt="fix the failing test", context_tokens="8000")


def finished(run: Ended) -> bytes:
    assert run.outcome == Finished(), run.outcome
    return run.transcript


@pytest.fixture(scope="module")
def uncut() -> tuple[Ended, Replies]:
    """The whole session, stopped by nothing but its effects."""
    replies = working_session()
    return whole(agent_module(), SESSION_ARGS, replies), replies


def test_a_session_goes_from_prompt_to_end(uncut: tuple[Ended, Replies]) -> None:
    transcript, replies = finished(uncut[0]), uncut[1]
    kinds = [event["event"] for event in events(transcript)]
    assert kinds[0] == "begin" and kinds[-1] == "finished"
    for kind in (
        "notes",
        "machine",
        "user",
        "text",
        "call",
        "result",
        "usage",
        "error",
        "notice",
        "compaction",
        "waiting",
    ):
        assert kind in kinds, kind
    assert [op for op, _ in replies.asked][:4] == ["machine", "tool", "model", "tool"]
    assert replies.asked[-1][1]["why"] == "next"
    assert len([op for op, _ in replies.asked if op == "model"]) == len(replies.model)


def test_its_transcript_holds_no_machine_fact(uncut: tuple[Ended, Replies]) -> None:
    transcript, replies = finished(uncut[0]), uncut[1]
    assert "aarch64" in json.dumps(replies.asked), "positive control: the model was told"
    assert b"aarch64" not in transcript and b"2026" not in transcript


@pytest.mark.parametrize("pauses", [20, 60, 300])
@pytest.mark.parametrize("seed", range(3))
def test_cuts_anywhere_leave_no_trace(uncut: tuple[Ended, Replies], seed: int, pauses: int) -> None:
    dice = random.Random(seed)
    replies = working_session()
    most = max(1, 2 * uncut[0].checks // pauses)
    cut_run = cut(agent_module(), (Slice(checks=dice.randint(1, most)) for _ in range(100_000)), SESSION_ARGS, replies)
    assert cut_run.pauses > pauses / 2
    assert_finished_alike(cut_run, uncut[0])
    assert replies.asked == uncut[1].asked


@pytest.mark.long
@pytest.mark.parametrize("first", range(1, 4))
def test_thousands_of_cuts_leave_no_trace(uncut: tuple[Ended, Replies], first: int) -> None:
    replies = working_session()
    slices = (Slice(checks=first if index == 0 else 13) for index in range(1_000_000))
    cut_run = cut(agent_module(), slices, SESSION_ARGS, replies)
    assert cut_run.pauses > uncut[0].checks // 13
    assert_finished_alike(cut_run, uncut[0])


def test_other_replies_leave_another_transcript(uncut: tuple[Ended, Replies]) -> None:
    replies = working_session()
    replies.tool[-1] = {"output": "3 passed"}
    assert finished(whole(agent_module(), SESSION_ARGS, replies)) != uncut[0].transcript


def test_wrong_arguments_end_with_a_sentence_before_any_effect() -> None:
    guest = Guest.start(agent_module(), args=encoded_args(turn_limit="many"))
    outcome = guest.run(Slice())
    assert isinstance(outcome, Failed)
    assert "turn_limit" in outcome.reason and "1 to 10000" in outcome.reason


@pytest.mark.parametrize(
    "damage", [b"", b"nonsense", b"\xff\xfe", b"[" * 100_000, b'{"content":' + b"[" * 70 + b"]" * 70 + b"}"]
)
def test_damaged_replies_are_put_to_the_person(damage: bytes) -> None:
    replies = Replies(model=[damage, says("Fine.")], input=[{"text": ""}])
    transcript = finished(whole(agent_module(), encoded_args(prompt="go", once="true"), replies))
    assert [event["type"] for event in events(transcript) if event["event"] == "error"] == ["unreadable_reply"]
    assert events(transcript)[-1] == {"event": "finished", "reason": "end_turn"}


def test_a_snapshot_does_not_keep_what_was_freed() -> None:
    secret = "needle-in-a-freed-buffer "
    replies = Replies(
        model=[
            calls(("bash", {"command": "cat big"})),
            {**calls(("bash", {"command": "true"})), "usage": {"input_tokens": 19_000}},
            says("A summary."),
            says("Done."),
        ],
        tool=[{"output": secret * 1000}, {"output": "fine"}],
    )
    args = encoded_args(prompt="go", context_tokens="20000")
    found = [
        b"".join(bytes(page) for page in snapshot.pages).count(secret.encode())
        for _, snapshot, _ in snapshots_at_effects(args, replies)
    ]
    told = max(json.dumps(request).count(secret) for op, request in replies.asked if op == "model")
    assert told > 500 and max(found) == told, "the conversation is held once"
    assert found[-1] == 0, "and not at all after a summary took its place"
