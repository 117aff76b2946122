"""Small odd sessions whose reading the real clients have settled: each a name, a client and its lines.

`oracle.json` beside the fixtures holds what the real client at its pinned version makes of each (`make test-clients`
checks it), in the form of `shape`; our readers must give the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.native.native import FIXTURES, claude_record, indexed, lines

from hhd_protocol.transcript import (
    Call,
    Compaction,
    Item,
    Message,
    Note,
    NoteKind,
    Outcome,
    Result,
    Shell,
    Text,
    Thinking,
    parts_text,
)

ORACLE = FIXTURES / "oracle.json"

MISSING = "<missing>"

Shape = dict[str, object]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One session; `path` for a handed-over fixture, else `raw`."""

    name: str
    harness: str
    raw: bytes = b""
    path: Path | None = None

    def file(self, folder: Path) -> Path:
        """A file of it, below `folder` unless it is a fixture."""
        if self.path is not None:
            return self.path
        names = {
            "claude": "aaaaaaaa-0000-4000-8000-000000000001.jsonl",
            "codex": f"rollout-2026-08-17T13-00-00-{THREAD}.jsonl",
        }
        path = folder / names.get(self.harness, f"{self.name.split('/', 1)[1]}.jsonl")
        path.write_bytes(self.raw)
        return path


def shape(items: Iterable[Item]) -> Shape:
    """What the client would send: texts, calls and summaries in order, and the result of each call."""
    talk: list[str] = []
    results: dict[str, str] = {}
    calls: dict[str, bool] = {}
    for item in items:
        live = getattr(item, "live", True)
        if isinstance(item, Call) and live:
            calls[item.id] = item.by_provider
            talk.append(f"c:{item.id}" if not item.by_provider else "c:")
        elif isinstance(item, Result) and item.call in calls and item.call not in results:
            kept = live and item.outcome is not Outcome.MISSING
            if kept or not calls[item.call]:
                results[item.call] = parts_text(item.parts) if kept else MISSING
        elif not live:
            continue
        elif isinstance(item, Note) and (item.kind is NoteKind.API_ERROR or item.label == "synthetic"):
            talk.append(f"a:{parts_text(item.parts)}")
        elif isinstance(item, Message | Note):
            talk.append(f"u:{parts_text(item.parts)}")
        elif isinstance(item, Text):
            talk.append(f"a:{item.text}")
        elif isinstance(item, Thinking):
            talk.append("t:")
        elif isinstance(item, Compaction):
            talk.append(f"s:{item.summary}")
        elif isinstance(item, Shell):
            talk.append(f"x:{item.command}")
    return {"talk": tidy(talk), "results": {k: v.strip() for k, v in results.items()}}


def tidy(talk: list[str]) -> list[str]:
    """Without blank texts and reminders, texts without space around them; a summary first, where the client has it."""
    kept = []
    for line in talk:
        letter, text = line[0], line[2:].strip()
        if letter in "ua" and (not text or text.startswith(("<system-reminder>", "<task-notification>"))):
            continue
        kept.append(f"{letter}:{text}")
    return sorted(kept, key=lambda line: line[0] != "s")


def cases() -> list[Case]:
    """All cases: handed-over fixtures, then ours."""
    found = [Case(name=f"{row.harness}/{row.name}", harness=row.harness, path=row.path) for row in indexed()]
    for harness, own in (("claude", _claude()), ("codex", _codex()), ("pi", _pi())):
        found += [Case(name=f"{harness}/{name}", harness=harness, raw=raw) for name, raw in own.items()]
    return found


# ---- Claude Code


def _u(n: int, p: int | None, content: object, **more: object) -> dict[str, object]:
    return claude_record(n, p, "user", content, **more)


def _a(n: int, p: int | None, text: str, **more: object) -> dict[str, object]:
    return claude_record(n, p, "assistant", [{"type": "text", "text": text}], **more)


def _call(n: int, p: int | None, call: str, reply: str | None = "") -> dict[str, object]:
    block = {"type": "tool_use", "id": call, "name": "Bash", "input": {"command": "x"}}
    record = claude_record(n, p, "assistant", [block])
    message = record["message"]
    assert isinstance(message, dict)
    if reply is None:
        del message["id"]
    elif reply:
        message["id"] = reply
    return record


def _r(n: int, p: int | None, call: str, text: str, **more: object) -> dict[str, object]:
    return _u(n, p, [{"type": "tool_result", "tool_use_id": call, "content": text}], **more)


def _boundary(n: int, p: int | None, **more: object) -> dict[str, object]:
    parent = None if p is None else f"u-{p}"
    common = {"parentUuid": parent, "isSidechain": False, "uuid": f"u-{n}", "timestamp": _at(n)}
    return {**common, "type": "system", "subtype": "compact_boundary", **more}


def _at(second: int) -> str:
    return f"2026-08-17T12:00:{second:02}.000Z"


def _claude() -> dict[str, bytes]:
    far = {"timestamp": "2026-08-17T13:00:00.000Z"}
    synthetic = _a(2, 1, "SYN")
    synthetic["message"] = {**synthetic["message"], "model": "<synthetic>"}  # type: ignore[dict-item]
    two = [_u(1, None, "U1"), _a(2, 1, "A1"), _u(3, 2, "BR-A"), _a(4, 3, "BR-A2")]
    other = [_u(5, 2, "BR-B"), _a(6, 5, "BR-B2")]

    def prompt(leaf: str) -> dict[str, object]:
        return {"type": "last-prompt", "lastPrompt": "x", "leafUuid": leaf}

    kept = {
        "compactMetadata": {"trigger": "auto", "preservedMessages": {"anchorUuid": "u-6", "uuids": ["u-3", "u-4"]}},
        "logicalParentUuid": "u-4",
    }
    summary = {"isCompactSummary": True, "isVisibleInTranscriptOnly": True}
    whole: dict[str, list[object]] = {
        "an error text of the client": [_u(1, None, "U1"), _a(2, 1, "ERR", isApiErrorMessage=True), _u(3, 2, "U2"), _a(4, 3, "A2")],
        "a synthetic reply": [_u(1, None, "U1"), synthetic, _u(3, 2, "U2"), _a(4, 3, "A2")],
        "last-prompt names a branch, then another grows": [*two, prompt("u-4"), *other],
        "last-prompt names the middle of a branch": [*two, _u(7, 4, "BR-A3"), _a(8, 7, "BR-A4"), *other, prompt("u-4")],
        "the last last-prompt names nothing": [*two, *other, prompt("u-4"), prompt("gone")],
        "last-prompt names a prompt": [*two, *other, prompt("u-3")],
        "a gap to a newer record": [
            _u(1, None, "U1", timestamp=_at(50)), _a(2, 1, "A1", timestamp=_at(51)),
            _u(3, 99, "U2", timestamp=_at(20)), _a(4, 3, "A2", timestamp=_at(21)),
        ],
        "a gap of six seconds": [
            _u(1, None, "U1", timestamp=_at(1)), _a(2, 1, "A1", timestamp=_at(2)),
            _u(3, 99, "U2", timestamp=_at(8)), _a(4, 3, "A2", timestamp=_at(9)),
        ],
        "a gap of five seconds": [
            _u(1, None, "U1", timestamp=_at(1)), _a(2, 1, "A1", timestamp=_at(3)),
            _u(3, 99, "U2", timestamp=_at(8)), _a(4, 3, "A2", timestamp=_at(9)),
        ],
        "a gap with unreadable times": [
            _u(1, None, "U1", timestamp="x"), _a(2, 1, "A1", timestamp="y"), _u(3, 99, "U2"), _a(4, 3, "A2"),
        ],
        "a text for the transcript only": [_u(1, None, "U1"), _u(2, 1, "ONLY", isVisibleInTranscriptOnly=True), _a(3, 2, "A1")],
        "a summary without boundary": [_u(1, None, "U1"), _u(2, 1, "SUMM", **summary), _a(3, 2, "A1")],
        "an interruption": [
            _u(1, None, "U1"), _a(2, 1, "A1"), _u(3, 2, [{"type": "text", "text": "[Request interrupted by user]"}]),
            _u(4, 3, "U2"), _a(5, 4, "A2"),
        ],
        "a result found by its id only": [_u(1, None, "U1"), _call(2, 1, "t1"), _a(3, 2, "A1"), _r(4, 99, "t1", "RES", **far), _u(5, 3, "U2", **far), _a(6, 5, "A2", **far)],
        "a result found by its source": [_u(1, None, "U1"), _call(2, 1, "t1"), _a(3, 2, "A1"), _r(4, 99, "t1", "RES", sourceToolAssistantUUID="u-2", **far), _u(5, 3, "U2", **far), _a(6, 5, "A2", **far)],
        "a result after the next reply": [_u(1, None, "U1"), _call(2, 1, "t1"), _a(3, 2, "A1"), _u(5, 3, "U2"), _a(6, 5, "A2"), _r(7, 6, "t1", "LATE"), _a(8, 7, "A3")],
        "a result before its call": [_u(1, None, "U1"), _r(2, 1, "t1", "R1"), _call(3, 2, "t1"), _a(4, 3, "A2")],
        "a result on a dead branch": [_u(1, None, "U1"), _call(2, 1, "t1"), _a(3, 2, "A1"), _u(4, 3, "DEAD"), _r(5, 4, "t1", "STRAY"), _u(6, 3, "U2"), _a(7, 6, "A2")],
        "two results": [_u(1, None, "U1"), _call(2, 1, "t1"), _r(3, 2, "t1", "ONE"), _r(4, 3, "t1", "TWO"), _a(5, 4, "A2")],
        "a call in the middle without result": [_u(1, None, "U1"), _call(2, 1, "t1"), _u(3, 2, "U2"), _a(4, 3, "A2")],
        "a text beside a result": [_u(1, None, "U1"), _call(2, 1, "t1"), _u(3, 2, [{"type": "tool_result", "tool_use_id": "t1", "content": "RES"}, {"type": "text", "text": "SAID"}]), _a(4, 3, "A2")],
        "a command of the person": [_u(1, None, "<bash-input>ls</bash-input>"), _u(2, 1, "<bash-stdout>x</bash-stdout><bash-stderr></bash-stderr>"), _u(3, 2, "U1"), _a(4, 3, "A1")],
        "a local command in a system record": [
            _u(1, None, "U1"), _a(2, 1, "A1"),
            {**_boundary(3, 2), "subtype": "local_command", "content": "<command-name>/x</command-name>"},
            _u(4, 3, "U2"), _a(5, 4, "A2"),
        ],
        "a future type in the chain": [_u(1, None, "U1"), {**_boundary(2, 1), "type": "future"}, _a(3, 2, "A1")],
        "a second record of an id": [_u(1, None, "U1"), _a(2, 1, "A1"), _u(3, 2, "U2"), _a(4, 3, "A2"), _a(2, 1, "A1b")],
        "a null parent in the middle": [_u(1, None, "U1"), _a(2, 1, "A1"), _u(3, None, "U2"), _a(4, 3, "A2")],
        "a circle": [_u(1, 2, "U1"), _a(2, 1, "A1"), _u(3, 2, "U2"), _a(4, 3, "A2")],
        "parallel calls of two replies in a row": [_u(1, None, "U1"), _call(2, 1, "t1"), _call(3, 2, "t2"), _r(4, 3, "t1", "R1"), _r(5, 4, "t2", "R2"), _a(6, 5, "A2")],
        "parallel calls of two replies as a tree": [_u(1, None, "U1"), _call(2, 1, "t1"), _call(3, 2, "t2"), _r(4, 2, "t1", "R1"), _r(5, 3, "t2", "R2"), _a(6, 5, "A2")],
        "parallel calls of one reply in a row": [_u(1, None, "U1"), _call(2, 1, "t1", "m"), _call(3, 2, "t2", "m"), _r(4, 3, "t1", "R1"), _r(5, 4, "t2", "R2"), _a(6, 5, "A2")],
        "one reply across a result": [_u(1, None, "U1"), _call(2, 1, "t1", "m"), _r(3, 2, "t1", "R1"), _call(4, 3, "t2", "m"), _r(5, 4, "t2", "R2"), _a(6, 5, "A2")],
        "a boundary with a parent": [_u(1, None, "U1"), _a(2, 1, "A1"), _boundary(3, 2), _u(4, 3, "SUMM", **summary), _u(5, 4, "U2"), _a(6, 5, "A2")],
        "a boundary off the path": [_u(1, None, "U1"), _a(2, 1, "A1"), _boundary(3, None), _u(4, 3, "SUMM", **summary), _u(5, 2, "U2"), _a(6, 5, "A2")],
        "a compaction that keeps two records": [*two, _boundary(5, None, **kept), _u(6, 5, "SUMM", **summary), _u(7, 6, "U3"), _a(8, 7, "A3")],
        "what follows a compaction hangs on a kept record": [*two, _boundary(5, None, **kept), _u(6, 5, "SUMM", **summary), _u(7, 4, "U3"), _a(8, 7, "A3")],
        "two compactions": [_u(1, None, "U1"), _a(2, 1, "A1"), _boundary(3, None, logicalParentUuid="u-2"), _u(4, 3, "SUMM1", **summary), _u(5, 4, "U2"), _a(6, 5, "A2"), _boundary(7, None, logicalParentUuid="u-6"), _u(8, 7, "SUMM2", **summary), _u(9, 8, "U3"), _a(10, 9, "A3")],
        "a reply that is a string": [_u(1, None, "U1"), claude_record(2, 1, "assistant", "ASTR"), _u(3, 2, "U2"), _a(4, 3, "A2")],
        "children before their parents": [_a(4, 3, "A2"), _u(3, 2, "U2"), _a(2, 1, "A1"), _u(1, None, "U1")],
    }  # fmt: skip
    found = {name: lines(*records) for name, records in whole.items()}
    plain = lines(_u(1, None, "U1"), _a(2, 1, "A1"))
    found["carriage returns"] = plain.replace(b"\n", b"\r\n")
    found["a byte order mark"] = b"\xef\xbb\xbf" + plain
    found["no last newline"] = plain[:-1]
    found["two records on a line"] = (
        lines(_u(1, None, "U1"), _a(2, 1, "A1"))
        + lines(_u(3, 2, "U2"), _a(4, 3, "A2")).replace(b"}\n{", b"}{")
        + lines(_u(5, 2, "U3"), _a(6, 5, "A3"))
    )
    found["bytes that are no text"] = lines(_u(1, None, "U1 XX"), _a(2, 1, "A1")).replace(b"XX", b"\xff\xed\xa0\x80")
    found["a doubled key"] = lines(_u(1, None, "U1"), _a(2, 1, "A1")).replace(
        b'"type": "user"', b'"type": "system", "type": "user"'
    )
    return found


# ---- Codex

THREAD = "019c0000-0000-7000-8000-000005779507"


def _codex() -> dict[str, bytes]:
    clock = iter(range(10_000))

    def line(kind: str, payload: dict[str, object]) -> dict[str, object]:
        second = next(clock)
        return {
            "timestamp": f"2026-08-17T13:{second // 60 % 60:02}:{second % 60:02}Z",
            "type": kind,
            "payload": payload,
        }

    def meta(**more: object) -> dict[str, object]:
        head = {"id": THREAD, "timestamp": "2026-08-17T13:00:00Z", "cwd": "/home/alice", "originator": "codex_cli_rs"}
        return line("session_meta", {**head, "cli_version": "0.144.4", "source": "cli", **more})

    def event(kind: str, **more: object) -> dict[str, object]:
        return line("event_msg", {"type": kind, **more})

    def item(kind: str, **more: object) -> dict[str, object]:
        return line("response_item", {"type": kind, **more})

    def said(text: str) -> dict[str, object]:
        return item("message", role="user", content=[{"type": "input_text", "text": text}])

    def reply(text: str) -> dict[str, object]:
        return item("message", role="assistant", content=[{"type": "output_text", "text": text}])

    def u(text: str) -> list[object]:
        return [event("user_message", message=text), said(text)]

    def u2(text: str) -> list[object]:
        content = [{"type": "text", "text": text, "text_elements": []}]
        done = {"type": "UserMessage", "id": "i", "content": content}
        return [said(text), event("item_completed", thread_id=THREAD, turn_id="t", item=done, completed_at_ms=1)]

    def a(text: str) -> list[object]:
        return [event("agent_message", message=text), reply(text)]

    def call(name: str, arguments: object = "{}") -> dict[str, object]:
        return item("function_call", name="f", arguments=arguments, call_id=name)

    def output(name: str, value: object) -> dict[str, object]:
        return item("function_call_output", call_id=name, output=value)

    def compacted(text: str, *history: dict[str, object]) -> dict[str, object]:
        more = {"replacement_history": [entry["payload"] for entry in history]} if history else {}
        return line("compacted", {"message": text, **more})

    def back(turns: int) -> dict[str, object]:
        return event("thread_rolled_back", num_turns=turns)

    untimed = reply("NOTIME")
    del untimed["timestamp"]
    whole: dict[str, list[object]] = {
        "a compaction without history": [meta(), *u("U1"), *a("A1"), *u("U2"), call("c1"), output("c1", "R1"), *a("A2"), compacted("SUMM"), *u("U3"), *a("A3")],
        "two compactions without history": [meta(), *u("U1"), *a("A1"), compacted("SUMM1"), *u("U2"), *a("A2"), compacted("SUMM2"), *u("U3"), *a("A3")],
        "a compaction with history, then one without": [meta(), *u("U1"), *a("A1"), compacted("SUMM1", said("REPL"), reply("REPLA")), *u("U2"), *a("A2"), compacted("SUMM2"), *u("U3"), *a("A3")],
        "two turns rolled back": [meta(), *u("U1"), *a("A1"), *u("U2"), *a("A2"), *u("U3"), *a("A3"), back(2), *u("U4"), *a("A4")],
        "a turn of the current form rolled back": [meta(), *u2("U1"), *a("A1"), *u2("U2"), *a("A2"), back(1), *u2("U3"), *a("A3")],
        "rolled back twice": [meta(), *u("U1"), *a("A1"), *u("U2"), *a("A2"), *u("U3"), *a("A3"), back(1), back(1), *u("U4"), *a("A4")],
        "a compaction rolled back": [meta(), *u("U1"), *a("A1"), *u("U2"), *a("A2"), compacted("SUMM"), *a("A2b"), back(1), *u("U3"), *a("A3")],
        "more rolled back than there is": [meta(), *u("U1"), *a("A1"), back(5), *u("U2"), *a("A2")],
        "arguments that are an object": [meta(), *u("U1"), call("c1", {"a": 1}), output("c1", "R1"), *a("A2")],
        "arguments that are broken": [meta(), *u("U1"), call("c1", "{broken"), output("c1", "R1"), *a("A2")],
        "an output that is an object": [meta(), *u("U1"), call("c1"), output("c1", {"content": "x"}), *a("A2")],
        "a call in the middle without output": [meta(), *u("U1"), call("c1"), *a("A1"), *u("U2"), *a("A2")],
        "a call at the end without output": [meta(), *u("U1"), call("c1")],
        "a second head": [meta(), *u("U1"), meta(cwd="/other"), *a("A2")],
        "a line without time": [meta(), *u("U1"), untimed, *a("A2")],
        "a reply that is a string": [meta(), *u("U1"), item("message", role="assistant", content="STR"), *a("A2")],
        "a future part": [meta(), *u("U1"), item("message", role="assistant", content=[{"type": "future", "text": "F"}, {"type": "output_text", "text": "OK"}]), *a("A2")],
        "an event that says something else": [meta(), event("user_message", message="SCREEN"), said("MODEL"), *a("A2")],
        "no events at all": [meta(), said("U1"), reply("A1"), said("U2"), reply("A2")],
    }  # fmt: skip
    found = {name: lines(*records) for name, records in whole.items()}
    plain = [meta(), *u("U1"), *a("A1")]
    found["carriage returns and blank lines"] = lines(*plain).replace(b"\n", b"\r\n \r\n")
    found["two records on a line"] = (
        lines(*plain) + lines(reply("G1"), reply("G2")).replace(b"}\n{", b"}{") + lines(*a("A2"))
    )
    found["half a surrogate pair"] = lines(*plain, reply("XX")).replace(b"XX", b"\\ud83d") + lines(*a("A2"))
    found["a byte order mark"] = b"\xef\xbb\xbf" + lines(*plain)
    found["bytes that are no text"] = lines(*plain, reply("XX")).replace(b"XX", b"\xff")
    return found


# ---- Pi

_USAGE = {"input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 2}
_COST = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}


def _pi() -> dict[str, bytes]:
    def head(**more: object) -> dict[str, object]:
        return {
            "type": "session", "version": 3, "id": "cccccccc-0000-4000-8000-000005255222",
            "timestamp": "2026-08-18T12:00:00.000Z", "cwd": "/tmp", **more,
        }  # fmt: skip

    def entry(n: int, p: int | None, kind: str = "message", **more: object) -> dict[str, object]:
        parent = None if p is None else f"{p:08x}"
        return {
            "type": kind,
            "id": f"{n:08x}",
            "parentId": parent,
            "timestamp": f"2026-08-18T12:00:{n:02}.000Z",
            **more,
        }

    def u(n: int, p: int | None, text: str) -> dict[str, object]:
        return entry(n, p, message={"role": "user", "content": [{"type": "text", "text": text}], "timestamp": 1})

    def a(n: int, p: int | None, *blocks: object, **more: object) -> dict[str, object]:
        content = [{"type": "text", "text": b} if isinstance(b, str) else b for b in blocks]
        body = {"role": "assistant", "content": content, "api": "anthropic-messages", "provider": "anthropic"}
        usage = {**_USAGE, "cost": _COST}
        return entry(n, p, message={**body, "model": "m", "usage": usage, "stopReason": "stop", "timestamp": 1, **more})

    def call(name: str) -> dict[str, object]:
        return {"type": "toolCall", "id": name, "name": "f", "arguments": {}}

    def r(n: int, p: int | None, name: str, text: str) -> dict[str, object]:
        content = [{"type": "text", "text": text}]
        body = {"role": "toolResult", "toolCallId": name, "toolName": "f", "content": content, "isError": False}
        return entry(n, p, message={**body, "timestamp": 1})

    def compaction(n: int, p: int | None, text: str, kept: str) -> dict[str, object]:
        return entry(n, p, "compaction", summary=text, firstKeptEntryId=kept, tokensBefore=1)

    def bare(record: dict[str, object], *names: str) -> dict[str, object]:
        return {name: value for name, value in record.items() if name not in (names or ("id", "parentId"))}

    two = [u(1, None, "U1"), a(2, 1, "A1")]
    next_two = [u(4, 3, "U2"), a(5, 4, "A2")]
    first = bare(head(), "version")
    hook = {"role": "hookMessage", "customType": "h", "content": "HOOK", "display": True, "timestamp": 1}
    whole: dict[str, list[object]] = {
        "a branch left": [head(), *two, u(3, 2, "DEAD"), a(4, 3, "DEAD2"), u(5, 2, "U2"), a(6, 5, "A2")],
        "a missing parent": [head(), *two, u(3, 99, "U2"), a(4, 3, "A2")],
        "a second entry of an id": [head(), *two, a(2, 1, "A1b"), u(3, 2, "U2"), a(4, 3, "A2")],
        "a second entry of an id at the end": [head(), *two, u(3, 2, "U2"), a(2, 1, "A1b")],
        "a compaction that keeps from nothing": [head(), *two, compaction(3, 2, "S", "deadbeef"), *next_two],
        "a compaction that keeps from itself": [head(), *two, compaction(3, 2, "S", "00000003"), *next_two],
        "a compaction that keeps from another branch": [head(), *two, u(9, 1, "OFF"), compaction(3, 2, "S", "00000009"), *next_two],
        "two compactions": [head(), *two, compaction(3, 2, "S1", "00000002"), *next_two, compaction(6, 5, "S2", "00000002"), u(7, 6, "U3")],
        "a leaf that is a label": [head(), *two, u(3, 2, "U2"), a(4, 3, "A2"), entry(5, 2, "label", targetId="00000001", label="x")],
        "an entry before its parent": [head(), u(1, None, "U1"), u(3, 2, "U2"), a(2, 1, "A1"), a(4, 3, "A2")],
        "no head": [*two],
        "version 2": [head(version=2), u(1, None, "U1"), entry(2, 1, message=hook), a(3, 2, "A1")],
        "version 1": [first, *(bare(e) for e in (*two, u(3, 2, "U2")))],
        "version 1 with a compaction": [first, *(bare(e) for e in (*two, u(3, 2, "KEPT"))), bare(entry(9, 0, "compaction", summary="S", firstKeptEntryIndex=3, tokensBefore=1)), bare(a(4, 3, "A2"))],
        "version 9": [head(version=9), *two],
        "a content that is a string": [head(), entry(1, None, message={"role": "user", "content": "USTR", "timestamp": 1}), a(2, 1, "A1")],
        "a summary of a branch": [head(), *two, entry(3, 1, "branch_summary", fromId="00000002", summary="BS"), u(4, 3, "U2")],
        "an entry without id": [head(), u(1, None, "U1"), bare(a(2, 1, "NOID"), "id"), u(3, 1, "U2")],
        "a second head": [head(), u(1, None, "U1"), head(), a(2, 1, "A1")],
        "two results": [head(), u(1, None, "U1"), a(2, 1, call("t1")), r(3, 2, "t1", "R1"), a(4, 3, "A")],
    }  # fmt: skip
    found = {name: lines(*records) for name, records in whole.items()}
    plain = lines(head(), *two)
    found["carriage returns and blank lines"] = plain.replace(b"\n", b"\r\n \r\n")
    found["a byte order mark"] = b"\xef\xbb\xbf" + plain
    found["two records on a line"] = plain + lines(u(3, 2, "U2"), a(4, 3, "A2")).replace(b"}\n{", b"}{")
    return found


def oracle() -> dict[str, Shape]:
    """What the real clients made of each case."""
    found: dict[str, Shape] = json.loads(ORACLE.read_text())
    return found
