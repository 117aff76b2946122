"""A session at a glance, from the begin and the end of its file: what a list shows."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import msgspec

from hhd.base.errors import RefusedError
from hhd.native.homes import codex_id
from hhd.native.source import BOM, Source
from hhd_protocol.transcript import Harness, Item, Message, parts_text

HEAD_BYTES = 16 * 1024
TAIL_BYTES = 16 * 1024
HEAD_BYTES_MAX = 8 * 1024 * 1024
"""A first prompt with a picture may be long; past this a list goes without it."""

_PROMPT_CHARS = 200


class Card(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One session in a list. `note` says why the client itself would not list it, or is empty."""

    harness: str
    id: str
    path: str
    bytes: int
    mtime_ns: int
    inode: int
    cwd: str | None = None
    title: str | None = None
    prompt: str | None = None
    started: str | None = None
    ended: str | None = None
    version: str | None = None
    parent: str | None = None
    note: str = ""


def card_of(harness: Harness, path: str, found: os.stat_result) -> Card | None:
    """The card of the file at `path`; None if it cannot be read or is no session of `harness`."""
    try:
        with Source(Path(path)) as source:
            head, tail = _ends(source, HEAD_BYTES)
            facts = _FACTS[harness](path, head, tail)
            size = HEAD_BYTES * 8
            while (
                facts is not None and facts.get("prompt") is None and len(head) < source.end and size <= HEAD_BYTES_MAX
            ):
                head, tail = _ends(source, size)
                facts = _FACTS[harness](path, head, tail)
                size *= 8
    except OSError:
        return None
    except RefusedError:
        if harness is not Harness.CODEX or not path.endswith(".zst"):
            return None
        facts = {"id": codex_id(os.path.basename(path)) or "", "note": "cannot be unpacked"}
    if facts is None:
        return None
    return Card(
        harness=harness.value,
        path=path,
        bytes=found.st_size,
        mtime_ns=found.st_mtime_ns,
        inode=found.st_ino,
        **facts,  # type: ignore[arg-type]
    )


def _ends(source: Source, size: int) -> tuple[bytes, bytes]:
    """The first bytes up to a line's end (or `size`), and the last ones from a line's begin."""
    end = source.end
    if end <= size + TAIL_BYTES:
        return source.read(0, end), b""
    head = source.read(0, size)
    tail = source.read(end - TAIL_BYTES, TAIL_BYTES)
    return head[: head.rfind(b"\n") + 1], tail[tail.find(b"\n") + 1 :]


Facts = dict[str, str | None]


def _records(raw: bytes, kind: msgspec.json.Decoder[msgspec.Struct]) -> list[msgspec.Struct]:
    if raw.startswith(BOM):
        raw = raw[len(BOM) :]
    try:
        return kind.decode_lines(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    found = []
    for line in raw.split(b"\n"):
        try:
            found.append(kind.decode(line))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue
    return found


def _claude(path: str, head: bytes, tail: bytes) -> Facts | None:
    from hhd.native import claude_records as records
    from hhd.native.claude_items import Translator

    decoder = _decoders.setdefault("claude", msgspec.json.Decoder(records.Record))
    first: list[records.Record] = _records(head, decoder)  # type: ignore[assignment]
    last: list[records.Record] = _records(tail, decoder)  # type: ignore[assignment]
    stem = os.path.basename(path)[: -len(".jsonl")]
    translator = Translator(frozenset(), stem, 0, lambda _: None)
    facts: Facts = {"id": stem}
    titles: dict[str, str] = {}
    talk = side = False
    out: list[Item] = []
    for rec in (*first, *last):
        if rec.type in ("user", "assistant"):
            talk = talk or not rec.isSidechain
            side = side or rec.isSidechain
            if rec.type == "user" and not rec.isSidechain and "prompt" not in facts and not rec.isCompactSummary:
                out.clear()
                translator.user(rec, 0, True, out)
                for item in out:
                    if isinstance(item, Message) and (text := parts_text(item.parts).strip()):
                        facts["prompt"] = _short(text)
                        break
        elif rec.customTitle:
            titles["custom"] = rec.customTitle
        elif rec.aiTitle:
            titles["ai"] = rec.aiTitle
        elif rec.type == "summary" and rec.summary:
            titles["summary"] = rec.summary
        if rec.timestamp:
            facts.setdefault("started", rec.timestamp)
            facts["ended"] = rec.timestamp
        facts["cwd"] = rec.cwd or facts.get("cwd")
        facts["version"] = rec.version or facts.get("version")
    facts["title"] = next((titles[name] for name in ("custom", "ai", "summary") if name in titles), None)
    if not talk:
        facts["note"] = "a helper's record" if side else "no conversation near its begin or end"
    return facts


def _codex(path: str, head: bytes, tail: bytes) -> Facts | None:
    from hhd.native import codex_records as records

    meta_decoder = _decoders.setdefault("codex-meta", msgspec.json.Decoder(records.MetaLine))
    decoder = _decoders.setdefault("codex", msgspec.json.Decoder(records.Line))
    facts: Facts = {"id": codex_id(os.path.basename(path)) or "", "note": ""}
    metas: list[records.MetaLine] = _records(head.split(b"\n", 1)[0], meta_decoder)  # type: ignore[assignment]
    meta = metas[0].payload if metas and metas[0].type == "session_meta" else None
    if meta is None:
        facts["note"] = "does not start with session metadata"
    else:
        facts |= {"cwd": meta.cwd, "version": meta.cli_version, "started": meta.timestamp}
        facts["parent"] = meta.parent_thread_id or meta.forked_from_id
        if meta.id != facts["id"]:
            facts["note"] = "the id in its name is not the id in its first line"
    lines: list[records.Line] = [*_records(head, decoder), *_records(tail, decoder)]  # type: ignore[list-item]
    for line in lines:
        payload = line.payload
        facts["ended"] = line.timestamp or facts.get("ended")
        if payload is None or line.type != "event_msg":
            continue
        if payload.type == "thread_name_updated":
            facts["title"] = payload.thread_name
        if facts.get("prompt") is None and (text := _event_text(payload)):
            facts["prompt"] = _short(text)
    if facts.get("prompt") is None and not facts["note"]:
        facts["note"] = "no prompt near its begin"
    return facts


def _event_text(payload: object) -> str | None:
    from hhd.native import codex_records as records

    assert isinstance(payload, records.Payload)
    if payload.type == "user_message":
        return payload.message
    if payload.type == "item_completed" and payload.item is not None and payload.item.type == "UserMessage":
        return "".join(part.text or "" for part in records.contents(payload.item.content))
    return None


def _pi(path: str, head: bytes, tail: bytes) -> Facts | None:
    from hhd.native import pi_records as records

    decoder = _decoders.setdefault("pi", msgspec.json.Decoder(records.Entry))
    entries: list[records.Entry] = [*_records(head, decoder), *_records(tail, decoder)]  # type: ignore[list-item]
    if not entries or entries[0].type != "session" or entries[0].id is None:
        return None
    first = entries[0]
    facts: Facts = {"id": first.id, "cwd": first.cwd, "started": first.timestamp, "parent": first.parentSession}
    for entry in entries:
        facts["ended"] = entry.timestamp or facts.get("ended")
        if entry.type == "session_info" and entry.name:
            facts["title"] = entry.name
        body = entry.message
        if facts.get("prompt") is None and body is not None and body.role == "user":
            content = body.content
            text = content if isinstance(content, str) else "".join(p.text or "" for p in content or ())
            facts["prompt"] = _short(text) if text.strip() else None
    return facts


_FACTS = {Harness.CLAUDE: _claude, Harness.CODEX: _codex, Harness.PI: _pi}
_decoders: dict[str, msgspec.json.Decoder[msgspec.Struct]] = {}


def _short(text: str) -> str:
    return re.sub(r"\s+", " ", text[:1000]).strip()[:_PROMPT_CHARS]


def codex_titles(home: Path) -> dict[str, str]:
    """The titles that Codex keeps beside its sessions: the last one for each id."""
    found: dict[str, str] = {}
    try:
        with open(home / "session_index.jsonl", "rb") as file:
            for line in file.read(64 << 20).split(b"\n"):
                try:
                    row = json.loads(line)
                except (ValueError, RecursionError):
                    continue
                if isinstance(row, dict) and isinstance(row.get("id"), str) and isinstance(row.get("thread_name"), str):
                    found[row["id"]] = row["thread_name"]
    except OSError:
        pass
    return found
