"""Damage and oddities in the bytes of a file, and files that change while they are read."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from tests.native.native import FIXTURES, Indexed, claude_record, indexed, lines, read, write

from hhd.base.errors import RefusedError
from hhd.native.cards import card_of
from hhd.native.opening import open_session
from hhd.native.source import BLOCK_BYTES, ChangedError, Source
from hhd_protocol import limits
from hhd_protocol.transcript import (
    Call,
    Compaction,
    Harness,
    Message,
    Reason,
    Result,
    TextPart,
    Verdict,
)


def talk(turns: int, size: int = 10) -> bytes:
    """A session of `turns` prompts and replies with texts of `size`."""
    records = []
    for n in range(1, 2 * turns + 1, 2):
        records.append(claude_record(n, n - 1 or None, "user", f"U{n} " + "x" * size))
        records.append(claude_record(n + 1, n, "assistant", [{"type": "text", "text": f"A{n} " + "y" * size}]))
    return lines(*records)


def said(path: Path) -> list[str]:
    return [text.split()[1] for text in read(path).texts()]


@pytest.mark.parametrize("size", [10, 61_000, BLOCK_BYTES - 400, BLOCK_BYTES, 3 * BLOCK_BYTES + 1])
def test_a_session_is_the_same_whatever_its_line_ends_and_line_lengths(tmp_path: Path, size: int) -> None:
    raw = talk(4, size)
    wanted = ["U1", "A1", "U3", "A3", "U5", "A5", "U7", "A7"]
    for variant in (
        raw,
        raw.replace(b"\n", b"\r\n"),
        b"\xef\xbb\xbf" + raw,
        raw[:-1],
        raw.replace(b"\n", b"\n\n  \n"),
        raw.replace(b": ", b":").replace(b", ", b","),
    ):
        assert said(write(tmp_path, variant)) == wanted


def test_a_line_of_20_megabytes_with_an_emoji_is_read_whole(tmp_path: Path) -> None:
    text = "\U0001f600" + "z" * 20_000_000
    path = write(tmp_path, lines(claude_record(1, None, "user", text), claude_record(2, 1, "assistant", "A")))
    whole = read(path)
    assert whole.items[0].parts == (TextPart(text),)  # type: ignore[union-attr]
    assert len(whole.items) == 2


def test_a_line_past_the_bound_is_left_out_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hhd.native.source.NATIVE_LINE_BYTES_MAX", 2 * BLOCK_BYTES)
    raw = lines(
        claude_record(1, None, "user", "U1 a"),
        claude_record(2, 1, "assistant", "A1 " + "x" * 20 * BLOCK_BYTES),
        claude_record(3, 1, "user", "U2 b"),
    )
    whole = read(write(tmp_path, raw))
    assert whole.texts() == ["u U1 a", "u U2 b"]
    assert whole.account.count(Verdict.DAMAGED, Reason.TOO_LONG) == 1
    assert limits.NATIVE_LINE_BYTES_MAX > 100_000_000


def test_every_kind_of_bad_line_has_its_reason_and_number(tmp_path: Path) -> None:
    bad = [
        b"{broken",
        b"[1,2]",
        b'"text"',
        b'{"a":NaN}',
        b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}",
        b"\x00\x01",
        b"5",
    ]
    good = talk(1).split(b"\n")[:-1]
    path = write(tmp_path, b"\n".join([good[0], *bad, good[1], b'{"cut']))
    whole = read(path)
    assert [t.split()[1] for t in whole.texts()] == ["U1", "A1"]
    found = {t.reason: t.lines for t in whole.account.tallies if t.verdict is Verdict.DAMAGED}
    assert found[Reason.CUT] == ((0, 10, 10),)
    assert found[Reason.TOO_DEEP] == ((0, 6, 6),)
    assert found[Reason.BAD_JSON] == ((0, 2, 5), (0, 7, 8))


def test_wrong_shapes_are_counted_and_the_rest_of_their_record_is_kept(tmp_path: Path) -> None:
    odd = claude_record(2, 1, "assistant", [{"type": "text", "text": 5}, {"type": "text", "text": "kept"}, 7, None])
    odd |= {"cwd": 5, "version": ["x"], "isMeta": "yes"}
    calls = [{"type": "tool_use", "id": 5, "name": None, "input": "text"}, {"type": "tool_use"}]
    records = [
        claude_record(1, None, "user", "U"),
        odd,
        claude_record(3, 2, "assistant", calls),
        claude_record(4, 3, "user", {"an": "object"}),
        claude_record(5, 4, "user", [{"type": "tool_result", "content": {"an": "object"}}]),
        {"type": "user", "uuid": 5, "message": []},
        {"type": 5},
        {},
    ]
    whole = read(write(tmp_path, lines(*records)))
    assert "a kept" in whole.texts()
    assert len([i for i in whole.items if isinstance(i, Result)]) >= len(
        [i for i in whole.items if isinstance(i, Call)]
    )


def test_a_newer_client_and_unknown_kinds_stop_nothing(tmp_path: Path) -> None:
    records = [
        claude_record(1, None, "user", "U", version="99.0.0", future={"x": [1]}),
        {"type": "quantum-state", "uuid": "u-2", "parentUuid": "u-1", "payload": {"x": 1}},
        claude_record(3, 2, "assistant", [{"type": "hologram", "data": {"x": 1}}, {"type": "text", "text": "A"}]),
        {"type": "loose-future", "x": 1},
    ]
    whole = read(write(tmp_path, lines(*records)))
    assert whole.texts() == ["u U", "a A"] and whole.header.versions[0] == "99.0.0"
    assert whole.account.count(Verdict.UNKNOWN, Reason.UNKNOWN_TYPE) == 2
    assert any('"data": {"x": 1}' in str(item) for item in whole.items)


def test_system_and_client_text_never_becomes_a_message(tmp_path: Path) -> None:
    records = [
        claude_record(1, None, "user", "MINE"),
        {
            "type": "attachment",
            "uuid": "u-2",
            "parentUuid": "u-1",
            "attachment": {"type": "x", "content": "VENDOR"},
            "rendered": "VENDOR",
        },
        claude_record(3, 2, "user", "<system-reminder>VENDOR</system-reminder>"),
        claude_record(4, 3, "user", "VENDOR", isMeta=True),
        claude_record(5, 4, "user", "VENDOR", origin={"kind": "task-notification"}),
        {"type": "system", "uuid": "u-6", "parentUuid": "u-5", "subtype": "x", "content": "VENDOR"},
        {"type": "api-request", "system": "VENDOR"},
        claude_record(7, 6, "assistant", "A"),
    ]
    whole = read(write(tmp_path, lines(*records)))
    assert [p.parts for p in whole.of(Message)] == [(TextPart("MINE"),)]  # type: ignore[union-attr]


@pytest.mark.parametrize("event_first", [True, False])
def test_a_text_that_begins_like_the_clients_own_is_the_persons_if_an_event_says_so(
    tmp_path: Path, event_first: bool
) -> None:
    texts = ["# AGENTS.md instructions are what I ask about", "<environment_context> is odd, is it not?"]
    records: list[dict[str, object]] = []
    clock = iter(range(60))

    def line(kind: str, payload: dict[str, object]) -> None:
        records.append({"timestamp": f"2026-01-01T00:00:{next(clock):02}Z", "type": kind, "payload": payload})

    line("session_meta", {"id": "x", "timestamp": "t", "cwd": "/", "originator": "o", "cli_version": "1"})
    for text in texts:
        parts = [{"type": "input_text", "text": text}]
        pair = [
            ("event_msg", {"type": "user_message", "message": text}),
            ("response_item", {"type": "message", "role": "user", "content": parts}),
        ]
        for kind, payload in pair if event_first else reversed(pair):
            line(kind, payload)
        line(
            "response_item", {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "A"}]}
        )
        line("response_item", {"type": "message", "role": "user", "content": parts})
    whole = read(write(tmp_path, lines(*records)))
    assert [t for t in whole.texts() if t.startswith("u")] == [f"u {text}" for text in texts]
    assert whole.account.count(Verdict.RECOGNISED, Reason.VENDOR_TEXT) == 2


def test_a_text_after_a_call_of_the_same_reply_stays_between_call_and_result(tmp_path: Path) -> None:
    call = claude_record(2, 1, "assistant", [{"type": "tool_use", "id": "t", "name": "Bash", "input": {}}])
    text = claude_record(3, 2, "assistant", [{"type": "text", "text": "A"}])
    text["message"]["id"] = call["message"]["id"]  # type: ignore[index]
    answer = [{"type": "tool_result", "tool_use_id": "t", "content": "R"}]
    records = [claude_record(1, None, "user", "U"), call, text, claude_record(4, 3, "user", answer)]
    whole = read(write(tmp_path, lines(*records)))
    assert [type(item).__name__ for item in whole.items] == ["Message", "Call", "Text", "Result"]
    assert all(getattr(item, "live", False) for item in whole.items)


def test_a_file_that_grows_is_read_as_it_was(tmp_path: Path) -> None:
    path = write(tmp_path, talk(200, 2000))
    with open_session(path) as reading:
        items = reading.items()
        first = next(items)
        with open(path, "ab") as file:
            file.write(lines(claude_record(999, 400, "user", "LATER")) + b'{"half')
        rest = list(items)
        assert reading.account.complete
    assert len([first, *rest]) == 400
    assert "LATER" not in str(rest)
    assert "LATER" in str(read(path).items)


@pytest.mark.parametrize("how", ["replaced", "deleted"])
def test_a_file_that_is_replaced_or_deleted_is_read_to_its_end(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hhd.native.claude.RETAINED_WHOLE_BYTES_MAX", 0)
    monkeypatch.setattr("hhd.native.claude.RETAINED_BYTES_MAX", 0)
    path = write(tmp_path, talk(300, 2000))
    with open_session(path) as reading:
        items = reading.items()
        first = next(items)
        if how == "replaced":
            other = write(tmp_path, talk(1), "other.jsonl")
            os.replace(other, path)
        else:
            path.unlink()
        assert len([first, *items]) == 600


@pytest.mark.parametrize("harness", ["claude", "codex", "pi"])
@pytest.mark.parametrize("how", ["cut", "overwritten"])
def test_a_file_that_is_cut_or_overwritten_is_noticed(
    tmp_path: Path, harness: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hhd.native.claude.RETAINED_WHOLE_BYTES_MAX", 0)
    monkeypatch.setattr("hhd.native.claude.RETAINED_BYTES_MAX", 0)
    row = next(row for row in indexed() if row.harness == harness and "tools-" in row.name)
    raw = row.path.read_bytes()
    path = write(tmp_path, raw, row.path.name)
    with open_session(path) as reading:
        if how == "cut":
            os.truncate(path, len(raw) // 2)
        else:
            first = raw.index(b"\n") + 1
            with open(path, "r+b") as file:
                file.write(raw[:first] + raw[first:].replace(b"e", b"f")[: len(raw) - first])
        with pytest.raises(ChangedError):
            list(reading.items())


def test_what_is_no_file_or_no_session_is_refused_with_a_sentence(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "folder.jsonl").mkdir()
    for name, raw in (("empty.jsonl", b""), ("text.jsonl", b"hello\n" * 100), ("zero.jsonl", b"\x00" * 4096)):
        (tmp_path / name).write_bytes(raw)
        with pytest.raises(RefusedError):
            open_session(tmp_path / name)
    for name in ("pipe.jsonl", "folder.jsonl"):
        with pytest.raises((RefusedError, OSError)):
            open_session(tmp_path / name)


def test_a_compressed_rollout_reads_like_the_plain_one_and_a_broken_one_is_refused(tmp_path: Path) -> None:
    import zstandard

    row = next(row for row in indexed() if row.harness == "codex" and "tools-" in row.name)
    packed = zstandard.ZstdCompressor().compress(row.path.read_bytes())
    path = write(tmp_path, packed, row.path.name + ".zst")
    assert read(path).items == read(row.path).items
    with pytest.raises(RefusedError):
        open_session(write(tmp_path, b"\x28\xb5\x2f\xfd nonsense", row.path.name + ".zst"))


def test_a_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import zstandard

    monkeypatch.setattr("hhd.native.source.NATIVE_UNPACKED_BYTES_MAX", 1_000_000)
    path = write(tmp_path, zstandard.ZstdCompressor().compress(b" " * 50_000_000), "rollout-x.jsonl.zst")
    with pytest.raises(RefusedError):
        Source(path)


def test_a_fork_of_a_base_that_is_gone_or_cut_or_circular_keeps_its_own_part(tmp_path: Path) -> None:
    child, base = sorted(
        (FIXTURES / "captured" / "codex" / "fork").rglob("*.jsonl"), key=lambda p: "41-51" not in p.name
    )
    raw = child.read_bytes()
    for name, change in {
        "gone": None,
        "cut": base.read_bytes()[:5000],
        "circular": raw,
    }.items():
        folder = tmp_path / name
        folder.mkdir()
        write(folder, raw, child.name)
        if name == "circular":
            own, other = child.stem[-36:], base.stem[-36:]
            write(
                folder,
                raw.replace(own.encode(), b"@").replace(other.encode(), own.encode()).replace(b"@", other.encode()),
                base.name,
            )
        elif change is not None:
            write(folder, change, base.name)
        whole = read(folder / child.name)
        assert whole.header.refused
        assert "u A question in the fork." in whole.texts()
        assert any(type(item).__name__ == "Gap" for item in whole.items)


def test_the_tail_of_a_long_file_gives_its_last_turns(tmp_path: Path) -> None:
    from hhd.node.native import from_turn, last_turns

    path = write(tmp_path, talk(3000, 1000))
    with last_turns(path, 2) as reading:
        got = [item for _, item in from_turn(reading, -2)]
    assert [item.at.record for item in got] == [
        "u-5997",
        "u-5998",
        "u-5999",
        "u-6000",
    ]
    assert [item.at.line for item in got] == [-4, -3, -2, -1]
    assert reading.account.records < 3000


def test_the_tail_of_a_compacted_pi_session_is_read_too(tmp_path: Path) -> None:
    path = next((FIXTURES / "captured" / "pi" / "compact").rglob("*.jsonl"))
    begin = path.read_bytes().index(b'{"type":"compaction"')
    with open_session(path, begin=begin) as reading:
        items = list(reading.items())
    assert [type(item) for item in items[:2]] == [Compaction, Message]


_MUTATIONS = 4


def _mutated(raw: bytes, dice: random.Random) -> bytes:
    whole = bytearray(raw)
    for _ in range(dice.randrange(1, 6)):
        at = dice.randrange(len(whole)) if whole else 0
        kind = dice.randrange(7)
        if kind == 0:
            whole[at : at + 1] = bytes([dice.randrange(256)])
        elif kind == 1:
            del whole[at : at + dice.randrange(1, 200)]
        elif kind == 2:
            whole[at:at] = bytes(dice.randrange(256) for _ in range(dice.randrange(1, 20)))
        elif kind == 3:
            chunk = whole[at : at + dice.randrange(1, 3000)]
            place = dice.randrange(len(whole) + 1)
            whole[place:place] = chunk
        elif kind == 4:
            whole = whole[:at]
        elif kind == 5:
            rows = whole.split(b"\n")
            dice.shuffle(rows)
            whole = bytearray(b"\n".join(rows))
        else:
            words = [b"null", b"[]", b"{}", b"1e999", b'"\\ud800"', b"true", b'"', b"\\", b"-1", b"[" * 300]
            place = whole.find(b":", at) + 1
            whole[place:place] = dice.choice(words)
    return bytes(whole)


def _fuzz(row: Indexed, tmp_path: Path, seeds: range) -> None:
    raw = row.path.read_bytes()
    for seed in seeds:
        path = write(tmp_path, _mutated(raw, random.Random(f"{row.name} {seed}")), row.path.name)
        try:
            with open_session(path) as reading:
                calls, results = [], []
                for item in reading.items():
                    if isinstance(item, Call):
                        calls.append(item.id)
                    elif isinstance(item, Result):
                        results.append(item.call)
                assert reading.account.complete, seed
                assert sorted(calls) == sorted(results), seed
        except RefusedError:
            continue


@pytest.mark.parametrize("row", indexed(), ids=lambda row: row.name)
def test_a_mutated_fixture_is_read_or_refused(row: Indexed, tmp_path: Path) -> None:
    _fuzz(row, tmp_path, range(_MUTATIONS))


@pytest.mark.long
@pytest.mark.parametrize("row", indexed(), ids=lambda row: row.name)
def test_many_mutations_of_a_fixture_are_read_or_refused(row: Indexed, tmp_path: Path) -> None:
    size = row.path.stat().st_size
    _fuzz(row, tmp_path, range(1000, 1000 + max(40, min(300, 4_000_000 // size))))


def test_reading_a_long_file_takes_memory_for_its_lines_not_for_its_size(tmp_path: Path) -> None:
    """90 MB of records and 360 MB: the larger may take some bytes a record more, no more."""
    peaks = []
    for count in (20_000, 80_000):
        path = tmp_path / f"{count}.jsonl"
        filler = "x" * 4000
        with open(path, "wb") as file:
            for n in range(1, count):
                file.write(lines(claude_record(n, n - 1 or None, "user", filler)))
        code = (
            "import sys\nfrom pathlib import Path\nfrom hhd.native.opening import open_session\n"
            "from tests.memory import peak_kib\n"
            "with open_session(Path(sys.argv[1])) as reading:\n    n = sum(1 for _ in reading.items())\n"
            "print(n, peak_kib())\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, str(path)],
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=True,
        )
        items, peak = map(int, done.stdout.split())
        assert items == count - 1
        peaks.append(peak)
    assert peaks[1] - peaks[0] < 16_000, peaks


def test_a_packed_session_that_is_cut_or_torn_says_so(tmp_path: Path) -> None:
    import zstandard

    row = next(row for row in indexed() if row.harness == "codex" and "tools-" in row.name)
    raw = row.path.read_bytes()
    half = raw.index(b"\n", len(raw) // 2) + 1
    packer = zstandard.ZstdCompressor().compressobj()
    begin = packer.compress(raw[:half]) + packer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    rest = packer.compress(raw[half:]) + packer.flush()
    two = (
        zstandard.ZstdCompressor(write_checksum=True).compress(raw[:half])
        + b"\x50\x2a\x4d\x18\x03\0\0\0abc"
        + (zstandard.ZstdCompressor().compress(raw[half:]))
    )
    name = row.path.name + ".zst"
    for packed, is_whole in (
        (begin + rest, True),
        (two, True),
        (begin, False),
        (begin + rest[:-1], False),
        (begin + rest + b"torn", False),
    ):
        with open_session(write(tmp_path, packed, name)) as reading:
            assert list(reading.items())
            damaged = [tally.reason for tally in reading.account.tallies if tally.verdict is Verdict.DAMAGED]
            assert damaged == ([] if is_whole else [Reason.CUT])
    with pytest.raises(RefusedError, match="nothing of it can be unpacked"):
        open_session(write(tmp_path, begin[:20], name))


def test_a_packed_session_that_is_damaged_from_its_begin_is_listed_with_a_word(tmp_path: Path) -> None:
    name = "rollout-2026-11-29T13-22-03-bbbbbbbb-0000-4000-8000-000000000003.jsonl.zst"
    path = write(tmp_path, b"no such thing", name)
    card = card_of(Harness.CODEX, str(path), path.stat())
    assert card is not None
    assert (card.id, card.note) == ("bbbbbbbb-0000-4000-8000-000000000003", "cannot be unpacked")
