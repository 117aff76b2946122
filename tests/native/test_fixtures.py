"""All handed-over fixtures: we give what the client itself would send, and account for every record."""

from __future__ import annotations

import json

import pytest
from tests.native.native import FIXTURES, Indexed, indexed, native_counts, read

from hhd_protocol.transcript import (
    Call,
    Compaction,
    Did,
    Gap,
    Item,
    LossKind,
    MediaPart,
    Message,
    Note,
    NoteKind,
    OtherPart,
    Outcome,
    Reason,
    Result,
    Shell,
    TextPart,
    Thinking,
    Verdict,
    encode_item,
)

EDGE = FIXTURES / "edge"
CAPTURED = FIXTURES / "captured"


@pytest.mark.parametrize("row", indexed(), ids=lambda row: f"{row.harness}-{row.name}")
def test_a_fixture_gives_what_the_real_client_sends(row: Indexed) -> None:
    whole = read(row.path)
    assert whole.header.harness.value == row.harness
    if row.accepted:
        assert whole.header.refused is None
        assert native_counts(whole.items) == row.counts
    else:
        assert whole.header.refused is not None


@pytest.mark.parametrize("row", indexed(), ids=lambda row: f"{row.harness}-{row.name}")
def test_every_call_has_exactly_one_result_after_it_and_provenance_points_into_the_file(row: Indexed) -> None:
    whole = read(row.path)
    waiting: set[str] = set()
    seen: set[str] = set()
    for item in whole.items:
        if isinstance(item, Call):
            assert item.id not in seen
            seen.add(item.id)
            waiting.add(item.id)
        elif isinstance(item, Result):
            assert item.call in waiting
            waiting.discard(item.call)
    assert not waiting
    texts = [(row.path.parent / f.path).read_bytes().split(b"\n") for f in whole.header.files]
    for item in whole.items:
        line = texts[item.at.file][item.at.line - 1]
        assert line
        if item.at.record is not None:
            assert item.at.record.encode() in line


def _whole(name: str) -> tuple[list[Item], list[str], list[str]]:
    whole = read(next(EDGE.glob(name + "*")))
    return whole.items, whole.texts(), whole.texts(live=False)


def test_claude_edges_say_what_the_index_says() -> None:
    items, texts, _ = _whole("E01")
    assert texts == ["u MK-U1", "a MK-A1"]
    assert isinstance(items[-1], Result) and items[-1].outcome is Outcome.MISSING
    assert _whole("E03")[1] == ["u MK-U1", "a MK-A1"]
    assert read(next(EDGE.glob("E03*"))).account.count(Verdict.DAMAGED, Reason.CUT) == 1
    items, texts, _ = _whole("E05")
    assert texts == ["u MK-U1", "a MK-A1", "u MK-U2", "a MK-A2"]
    (gap,) = (i for i in items if isinstance(i, Gap))
    assert (gap.bridged, gap.behind, gap.missing[-4:]) == (True, 2, "9999")
    assert _whole("E06")[1] == ["u MK-U1", "a MK-A1", "u MK-U2", "a MK-A2"]
    items = _whole("E07")[0]
    assert [(i.call, i.parts) for i in items if isinstance(i, Result)] == [
        (f"toolu_{n}", (TextPart(f"MK-RES{n}"),)) for n in range(4)
    ]
    whole = read(next(EDGE.glob("E07*")))
    assert not whole.header.branches and not whole.account.count(Verdict.RECOGNISED)
    whole = read(next(EDGE.glob("E08*")))
    assert "DEAD" not in "".join(whole.texts() + whole.texts(live=False))
    assert whole.account.count(Verdict.RECOGNISED, Reason.DEAD_BRANCH) == 2
    assert [(b.records, b.lines) for b in whole.header.branches] == [(2, (3, 4))]
    whole = read(next(EDGE.glob("E09*")))
    assert "SIDE" not in "".join(whole.texts())
    assert whole.account.count(Verdict.RECOGNISED, Reason.SIDECHAIN) == 1
    thinking = [i for i in _whole("E11")[0] if isinstance(i, Thinking)]
    assert [(t.text, t.sealed, t.sealed_form) for t in thinking] == [
        ("MK-THINK", None, None),
        ("", "MK-REDACT", "redacted"),
    ]
    assert len(read(next(EDGE.glob("E13*"))).header.cwds) == 2
    whole = read(next(EDGE.glob("E15*")))
    texts = whole.texts()
    assert "\u2028" in texts[2] and "\x00" in texts[2] and "\U0001f600" in texts[2]
    assert texts[3] == "u MK-U3 lone � end"
    assert [(c.kind, c.did, c.count) for c in whole.account.changes] == [(LossKind.TEXT, Did.CHANGED, 1)]
    (call,) = (i for i in _whole("E16")[0] if isinstance(i, Call))
    assert '"big": 12345678901234567890123, "f": 1.0, "e": 1e+22, "i": 9007199254740993' in call.arguments
    items = _whole("E18")[0]
    media = [p for i in items if isinstance(i, Message | Result) for p in i.parts if isinstance(p, MediaPart)]
    assert [(m.form, m.url is not None, m.mime, m.name) for m in media] == [
        ("image", True, None, None),
        ("image", False, "image/png", None),
        ("document", False, "application/pdf", "MK-DOC"),
        ("image", False, "image/png", None),
    ]
    first, second = (i for i in _whole("E21")[0] if isinstance(i, Result))
    assert (first.parts, first.plain, first.outcome) == ((), None, Outcome.OK)
    assert second.outcome is Outcome.ERROR and second.parts[0] == TextPart("MK-RES")
    assert isinstance(second.parts[1], OtherPart)
    assert json.loads(second.parts[1].json) == {"type": "tool_reference", "tool_name": "mcp__x__y"}
    assert b"MK-TUR" not in b"".join(map(encode_item, _whole("E21")[0]))
    whole = read(next(EDGE.glob("E24*")))
    assert "QUEUED" not in "".join(whole.texts())
    assert whole.account.count(Verdict.RECOGNISED, Reason.QUEUED) == 1
    items, texts, _ = _whole("E26")
    assert "u MK-INTERJECT" in texts
    results = {i.call: i.parts for i in items if isinstance(i, Result)}
    assert results == {"t1": (TextPart("MK-RES1"),), "t2": (TextPart("MK-RES2"),)}


def test_pi_edges_say_what_the_index_says() -> None:
    items, texts, before = _whole("P02")
    assert texts == ["u MK-KEPT", "a MK-A1b", "u MK-U2", "a MK-A2"]
    assert before == ["u MK-U1", "a MK-A1", "u MK-OLD"]
    assert [i.summary for i in items if isinstance(i, Compaction)] == ["MK-SUMMARY"]
    shells = [i for i in _whole("P04")[0] if isinstance(i, Shell)]
    assert [(s.command, s.output, s.live) for s in shells] == [
        ("echo MK-BANG", "MK-BANGOUT", True),
        ("echo MK-HID", "MK-HIDOUT", False),
    ]
    assert read(next(EDGE.glob("P06*"))).header.format_version == "1"
    whole = read(next(EDGE.glob("P07*")))
    (note,) = (i for i in whole.items if isinstance(i, Note))
    assert (note.kind, note.label, note.parts) == (NoteKind.CUSTOM, "x", (TextPart("MK-CUSTOM"),))
    assert whole.header.title == "MK-NAME"
    assert any(t.kind == "label" for t in whole.account.tallies)


def test_codex_edges_say_what_the_index_says() -> None:
    assert "ordinal" in (read(next(EDGE.glob("X02*"))).header.refused or "")
    whole = read(next(EDGE.glob("X03*")))
    assert whole.texts() == ["u MK-U1", "a MK-A1", "u MK-U2"]
    assert any(isinstance(i, Gap) for i in whole.items)
    items, texts, _ = _whole("X05")
    assert texts == ["u MK-U1", "a MK-A1", "a MK-A2"]
    (note,) = (i for i in items if isinstance(i, Note))
    assert (note.kind, note.about, note.parts) == (NoteKind.ORPHAN_RESULT, "call_zz", (TextPart("MK-RES"),))
    items = _whole("X07")[0]
    calls = {i.native: i for i in items if isinstance(i, Call)}
    assert "MK-LSH" in calls["local_shell_call"].arguments
    assert "MK-WEBQ" in calls["web_search_call"].arguments and calls["web_search_call"].by_provider
    assert calls["custom_tool_call"].arguments.startswith("*** Begin Patch\n*** Add File: MK-FILE")
    results = {i.call: i for i in items if isinstance(i, Result)}
    assert "MK-LSHOUT" in str(results["call_l"].parts) and "MK-PATCHOUT" in str(results["call_c"].parts)
    items, texts, before = _whole("X08")
    assert texts == ["u MK-REPL", "u MK-U2", "a MK-A2"] and before == ["u MK-U1", "a MK-A1"]
    assert any(isinstance(i, Thinking) and i.sealed == "gAAAMK-ENC" and not i.live for i in items)
    whole = read(next(EDGE.glob("X10*")))
    assert whole.texts() == ["u MK-U1", "a MK-A1", "u MK-U2", "a MK-A2"]
    assert whole.account.count(Verdict.RECOGNISED, Reason.ROLLED_BACK) == 2 and len(whole.header.branches) == 1
    assert read(next(EDGE.glob("X12*"))).account.count(Verdict.RECOGNISED, Reason.BETWEEN_AGENTS) == 1
    whole = read(next(EDGE.glob("X13*")))
    assert whole.texts() == ["u MK-U1", "a MK-A1"] and not whole.of(Note)
    assert whole.account.count(Verdict.RECOGNISED, Reason.VENDOR_TEXT) == 3
    assert read(next(EDGE.glob("X16*"))).account.count(Verdict.DAMAGED, Reason.BAD_JSON) == 1


def test_captured_sessions_keep_pictures_spilled_outputs_helpers_and_texts() -> None:
    (path,) = (CAPTURED / "claude" / "long").rglob("*.jsonl")
    spilled = [i.spilled for i in read(path).items if isinstance(i, Result)]
    assert spilled[0] is None and all(s and (path.parent / s).is_file() for s in spilled[1:])
    (path,) = (p for p in (CAPTURED / "claude" / "subagent").rglob("*.jsonl") if "subagents" not in p.parts)
    whole = read(path)
    (helper,) = whole.header.subagents
    assert helper.path and read(path.parent / helper.path).texts()[-1] == "a SUBAGENT-RESULT-42"
    assert helper.call == next(i.id for i in whole.items if isinstance(i, Call))
    for harness in ("codex", "pi"):
        (path,) = (CAPTURED / harness / "image").rglob("*.jsonl")
        whole = read(path)
        pictures = [
            p for i in whole.items if isinstance(i, Message | Result) for p in i.parts if isinstance(p, MediaPart)
        ]
        assert len(pictures) == 2 and {p.mime for p in pictures} == {"image/png"}
        assert all(p.base64 and p.base64 in path.read_text() for p in pictures)
        assert "<image" not in "".join(whole.texts())
    (path,) = (CAPTURED / "codex" / "tools").rglob("*.jsonl")
    assert [i.exit_code for i in read(path).items if isinstance(i, Result)] == [0, 0, 3, 3, 0, 0]
    (path,) = (CAPTURED / "codex" / "interrupted_INT").rglob("*.jsonl")
    (note,) = read(path).of(Note)
    assert isinstance(note, Note) and note.kind is NoteKind.ABORTED
    (path,) = (CAPTURED / "claude" / "unicode").rglob("*.jsonl")
    assert "\u202eRTL\u202c null-ish \x01 tab\there" in read(path).texts()[0]


@pytest.mark.parametrize("row", indexed(), ids=lambda row: f"{row.harness}-{row.name}")
def test_privileged_text_is_in_no_item(row: Indexed) -> None:
    privileged = ("MK-PERM", "MK-AGENTS", "MK-ENV", "base_instructions", "environment_context", "skills_instructions")
    whole = read(row.path)
    said = b"".join(encode_item(i) for i in whole.items if not isinstance(i, Call | Result)).decode()
    assert not [word for word in privileged if word in said]
    assert not [
        t for t in whole.texts() + whole.texts(live=False) if t.startswith("u <") and not t.startswith("u <file ")
    ]
