"""The scripted model: replies in order, and one clear sentence with the line number for everything else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hhd.base.config import load
from hhd.base.errors import UsageError
from hhd.effects.model import ModelUnavailable, Told, open_model

HELLO = '{"content": [{"type": "text", "text": "hello"}], "stop_reason": "end_turn"}'
BUSY = '{"error": {"type": "overloaded_error", "message": "busy"}, "status": 529}'


def ask(folder: Path, script: str | bytes, position: int) -> dict[str, object]:
    raw = script if isinstance(script, bytes) else script.encode()
    (folder / "s.jsonl").write_bytes(raw)
    told: list[Told] = []
    reply = json.loads(
        open_model("scripted:s.jsonl", load().model, folder).answer(b"{}", position=position, watch=told.append)
    )
    assert isinstance(reply, dict)
    return reply


def test_the_position_chooses_the_reply_and_nothing_else_does(tmp_path: Path) -> None:
    script = f"{HELLO}\n\n{BUSY}\r\n{HELLO}"
    assert ask(tmp_path, script, 1) == {"error": {"type": "overloaded_error", "message": "busy"}, "status": 529}
    for position in (0, 2):
        assert ask(tmp_path, script, position)["content"] == [{"type": "text", "text": "hello"}]


def test_token_counts_of_the_script_are_kept_and_else_zero(tmp_path: Path) -> None:
    assert ask(tmp_path, HELLO, 0)["usage"] == {"input_tokens": 0, "output_tokens": 0}
    assert ask(tmp_path, HELLO[:-1] + ', "usage": {"input_tokens": 5}}', 0)["usage"] == {"input_tokens": 5}


@pytest.mark.parametrize(
    "line",
    [
        "{oops",
        "[1]",
        "{}",
        '"text"',
        '{"content": "x", "stop_reason": "end_turn"}',
        '{"content": [1], "stop_reason": "end_turn"}',
        '{"content": []}',
        '{"error": "x"}',
        '{"error": {}, "status": "529"}',
        '{"content": [{"type": "text", "text": "\\ud800"}], "stop_reason": "end_turn"}',
        '{"content": [{"n": NaN}], "stop_reason": "end_turn"}',
        "[" * 50_000,
        b"\xff\xfe",
    ],
)
def test_a_malformed_line_is_named_by_its_number(tmp_path: Path, line: str | bytes) -> None:
    raw = line if isinstance(line, bytes) else line.encode()
    script = HELLO.encode() + b"\n\n" + raw + b"\n"
    with pytest.raises(ModelUnavailable, match=r"^Line 3 of the script s\.jsonl ") as raised:
        ask(tmp_path, script, 1)
    assert len(str(raised.value).splitlines()) == 1
    assert "content" in ask(tmp_path, script, 0)


def test_a_script_that_ends_too_early_says_which_reply_was_asked_for(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match="holds 1 replies and the session asks for number 2"):
        ask(tmp_path, HELLO, 1)


def test_a_script_that_is_not_there_or_not_readable_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none of that name comes with hhd \(.*demo.*\)"):
        open_model("scripted:nowhere", load().model, tmp_path)
    with pytest.raises(UsageError, match="cannot be read"):
        open_model(f"scripted:{tmp_path}", load().model, tmp_path)
    with pytest.raises(UsageError):
        open_model("scripted:a\0b", load().model, tmp_path)


def test_the_script_of_the_demo_comes_with_hhd_and_is_sound(tmp_path: Path) -> None:
    model = open_model("scripted:demo", load().model, tmp_path)
    replies = []
    while True:
        try:
            replies.append(json.loads(model.answer(b"{}", position=len(replies), watch=lambda told: None)))
        except ModelUnavailable:
            break
    assert [block["name"] for reply in replies for block in reply["content"] if block["type"] == "tool_use"]
    assert replies[-1]["stop_reason"] == "end_turn"


def test_a_file_of_the_same_name_comes_before_the_embedded_script(tmp_path: Path) -> None:
    (tmp_path / "demo").write_text(HELLO)
    reply = json.loads(
        open_model("scripted:demo", load().model, tmp_path).answer(b"", position=0, watch=lambda told: None)
    )
    assert reply["content"][0]["text"] == "hello"
