"""`protocol/spec/agent-effects.md` held against the agent: its tables, its bounds, its names."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.guest.agent_host import Replies, agent_module, encoded_args
from tests.guest.test_agent import SESSION_ARGS, says, working_session
from tests.runtime.runs import whole

ROOT = Path(__file__).resolve().parents[2]
SPEC = (ROOT / "protocol" / "spec" / "agent-effects.md").read_text()
SOURCES = {path.stem: path.read_text() for path in (ROOT / "guest" / "agent" / "src").glob("*.rs")}
TYPES = {"string": "text", "boolean": "true or false", "integer": "whole number"}


def section(head: str) -> str:
    """The text below one heading."""
    return SPEC.split(f"\n## {head}\n", 1)[1].split("\n## ", 1)[0]


def rows(text: str) -> list[list[str]]:
    """The cells of each row of the tables in `text`, heads left out."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line, rule in zip(lines, [*lines[1:], ""], strict=True)
        if not line.startswith("|---") and not rule.startswith("|---")
    ]


@pytest.fixture(scope="module")
def request_body() -> dict[str, Any]:
    replies = Replies(model=[says("Done.")])
    whole(agent_module(), encoded_args(prompt="go", once="true"), replies)
    return next(request for op, request in replies.asked if op == "model")


def test_each_tool_takes_what_the_page_says(request_body: dict[str, Any]) -> None:
    on_page = {name.strip("`"): cells for name, cells, _ in (row for row in rows(section("`tool`")))}
    sent = {tool["name"]: tool["input_schema"] for tool in request_body["tools"]}
    assert list(on_page) == list(sent)
    for name, cells in on_page.items():
        keys = re.findall(r"`(\w+)(\??)`", cells)
        assert [key for key, _ in keys] == list(sent[name]["properties"]), name
        assert [key for key, optional in keys if not optional] == sent[name]["required"], name
        for key, schema in sent[name]["properties"].items():
            if schema["type"] != "string":
                words = cells.split(f"`{key}", 1)[1].split(", `", 1)[0]
                assert schema["type"] == "integer" or TYPES["boolean"] in words, (name, key)


def test_a_request_has_the_parts_of_the_page(request_body: dict[str, Any]) -> None:
    assert set(request_body) == {"max_tokens", "system", "tools", "messages", "purpose"}
    marks = json.dumps(request_body).count('"cache_control": {"type": "ephemeral"}')
    assert 1 <= marks <= 4 and "At most four" in section("`model`").replace("\n", " ")


def test_arguments_have_the_defaults_and_bounds_of_the_page() -> None:
    args = {row[0].strip("`"): row for row in rows(section("Arguments"))}
    source = SOURCES["args"]
    for key in ("turn_limit", "call_limit", "context_tokens"):
        default, least, most = re.search(rf'"{key}", (\w+), (\w+), (\w+)\)', source).groups()  # type: ignore[union-attr]
        known = dict(re.findall(r"const (\w+): u64 = ([\d_]+);", source))
        values = [known.get(each, each).replace("_", "") for each in (default, least, most)]
        assert f"({values[1]}..{values[2]})" in args[key][1], key
        assert args[key][2] == values[0], key
    assert set(args) == {"prompt", "once", "turn_limit", "call_limit", "context_tokens", "max_tokens"}


@pytest.mark.parametrize(
    ("source", "constant", "sentence"),
    [
        ("turn", "OUTPUT_BYTES_MAX", "at most {} bytes of an output"),
        ("agent", "NOTES_BYTES_MAX", "At most {} bytes of them are kept"),
        ("facts", "BYTES_MAX", "At most {} bytes of facts"),
        ("person", "UNHEARD_MAX", "after {} empty texts in a row"),
        ("agent", "CUTS_MAX", "After {} such replies in a row"),
        ("json", "DEPTH_MAX", "nested deeper than {}"),
    ],
)
def test_each_bound_on_the_page_is_the_codes(source: str, constant: str, sentence: str) -> None:
    found = re.search(rf"const {constant}: \w+ = ([\d_]+);", SOURCES[source])
    assert found is not None
    assert sentence.format(found[1].replace("_", "")) in SPEC.replace("\n", " ")


def test_the_reasons_to_ask_are_those_of_the_page() -> None:
    on_page = set(re.findall(r"`(\w+)`", "".join(row[0] for row in rows(section("`input`")))))
    calls = re.findall(r'(?:ask_person|listen)\(\s*"(\w+)"', SOURCES["agent"] + SOURCES["person"])
    assert on_page == set(calls)


def test_the_events_are_those_of_the_page() -> None:
    on_page = {row[0].strip("`"): row[1] for row in rows(section("Transcript"))}
    written = set(re.findall(r'Line::new\("(\w+)"\)', "".join(SOURCES.values())))
    assert set(on_page) == written
    run = whole(agent_module(), SESSION_ARGS, working_session())
    for line in run.transcript.splitlines():
        event = json.loads(line)
        keys = set(event) - {"event"}
        if event["event"] != "usage":
            assert all(f"`{key}`" in on_page[event["event"]] for key in keys), event
