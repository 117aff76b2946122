"""Every fixture in every direction: written, read back, and equal to what was meant."""

from __future__ import annotations

import errno
import json
import os
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hhd.base.box import Box
from hhd.base.errors import Exit, RefusedError, RolledBackError
from hhd.native.convert.conversion import Converter, Did, Wish
from hhd.native.convert.history import History
from hhd.native.opening import open_session
from hhd_protocol.transcript import Call, Harness, LossKind, Message, Result, parts_text
from hhd_protocol.transcript import Did as Fate

FIXTURES = Path(__file__).parents[2] / "fixtures" / "native"
SESSIONS = sorted(path for kind in ("captured", "edge") for path in (FIXTURES / kind).rglob("*.jsonl"))
CWD = "/home/bob/work"


def converter(folder: Path) -> Converter:
    return Converter(
        open_reading=open_session,
        history=History(folder / "history", Box(bytes(32))),
        error_key=b"k" * 32,
        fresh_id=lambda: str(uuid.uuid4()),
    )


@pytest.mark.parametrize("target", Harness)
@pytest.mark.parametrize("source", SESSIONS, ids=lambda path: str(path.relative_to(FIXTURES))[-60:])
def test_a_fixture_converts_with_complete_pairing(source: Path, target: Harness, tmp_path: Path) -> None:
    manifest = converter(tmp_path).convert(source, Wish(target=target, home=tmp_path / "home", cwd=CWD))
    assert manifest.did is Did.WRITTEN
    assert manifest.path is not None
    raw = manifest.path.read_bytes()
    assert raw.endswith(b"\n")
    assert not raw.startswith(b"\xef\xbb\xbf")
    assert manifest.path.stat().st_mode & 0o777 == 0o600
    with open_session(manifest.path) as reading:
        items = list(reading.items())
        assert reading.header.harness is target
        assert reading.header.id == manifest.session.id
    calls = [item.id for item in items if isinstance(item, Call)]
    results = [item.call for item in items if isinstance(item, Result)]
    assert sorted(calls) == sorted(results)
    assert len(set(calls)) == len(calls)
    assert os.listdir(manifest.path.parent) == [manifest.path.name]


@pytest.mark.parametrize(
    ("name", "seals"),
    [
        ("E11_thinking.claude.jsonl", (b"MK-REDACT",)),
        ("X08_compacted_replacement.codex.jsonl", (b"gAAAMK-ENC", b"gAAAMK-THOUGHT")),
    ],
)
def test_nothing_that_another_account_has_sealed_comes_along(
    name: str, seals: tuple[bytes, ...], tmp_path: Path
) -> None:
    own = Harness(name.split(".")[1])
    source = tmp_path / f"11111111-2222-4333-8444-555555555555.{own.value}.jsonl"
    thought = {"type": "reasoning", "summary": [], "content": None, "encrypted_content": "gAAAMK-THOUGHT"}
    records = [json.loads(line) for line in (FIXTURES / "edge" / name).read_bytes().splitlines()]
    if own is Harness.CODEX:  # In a compaction, and beside it.
        records.append({**records[-1], "type": "response_item", "payload": thought})
        (folded,) = (one["payload"] for one in records if one["type"] == "compacted")
        folded["replacement_history"].append({**thought, "encrypted_content": "gAAAMK-THOUGHT-THERE"})
    source.write_text("".join(json.dumps(one) + "\n" for one in records))
    for target in Harness:
        made = converter(tmp_path).convert(source, Wish(target=target, home=tmp_path / target.value, cwd=CWD))
        assert made.path is not None
        raw = made.path.read_bytes()
        assert b"MK-A" in raw
        assert [seal in raw for seal in seals] == [target is own] * len(seals)
        assert any(loss.kind is LossKind.THINKING for loss in made.losses) or target is own


CALLING = [path for path in SESSIONS if path.name.startswith("X07") or "tools" in str(path) or "multi" in str(path)]


@pytest.mark.parametrize("target", Harness)
@pytest.mark.parametrize("source", CALLING, ids=lambda path: str(path.relative_to(FIXTURES))[-60:])
def test_arguments_and_results_of_tools_come_along_whole(source: Path, target: Harness, tmp_path: Path) -> None:
    made = converter(tmp_path).convert(source, Wish(target=target, home=tmp_path / "home", cwd=CWD))
    assert made.path is not None

    def called(path: Path) -> tuple[list[object], list[str]]:
        """Arguments as an object each, whichever way they are written; the texts of results."""
        with open_session(path) as reading:
            items = [item for item in reading.items() if getattr(item, "live", True)]
        given = [item.arguments for item in items if isinstance(item, Call)]
        objects = [json.loads(text) if text.startswith("{") else {"input": text} for text in given]
        return objects, [parts_text(item.parts) for item in items if isinstance(item, Result)]

    arguments, results = called(source)
    came, answered = called(made.path)
    assert arguments and all(one in came for one in arguments)
    assert all(any(text in there for there in answered) for text in results)


def test_a_second_conversion_of_an_unchanged_session_writes_nothing(tmp_path: Path) -> None:
    source, wish = SESSIONS[0], Wish(target=Harness.CODEX, home=tmp_path / "home", cwd=CWD)
    first = converter(tmp_path).convert(source, wish)
    assert first.path is not None
    before = first.path.read_bytes()
    second = converter(tmp_path).convert(source, wish)
    assert second.did is Did.UNCHANGED
    assert second.path == first.path
    assert [path for path in (tmp_path / "home").rglob("*") if path.is_file()] == [first.path]
    assert first.path.read_bytes() == before


def test_a_grown_session_updates_its_conversion_and_makes_no_second_one(tmp_path: Path) -> None:
    lines = (FIXTURES / "edge" / "E08_branch_rewind.claude.jsonl").read_bytes().splitlines(keepends=True)
    source = tmp_path / "11111111-2222-4333-8444-555555555555.jsonl"
    wish = Wish(target=Harness.PI, home=tmp_path / "home", cwd=CWD)
    source.write_bytes(b"".join(lines[:2]))
    first = converter(tmp_path).convert(source, wish)
    source.write_bytes(b"".join(lines))
    second = converter(tmp_path).convert(source, wish)
    assert second.did is Did.UPDATED
    assert second.path == first.path
    assert second.items != first.items
    assert [path for path in (tmp_path / "home").rglob("*") if path.is_file()] == [first.path]


def test_a_conversion_that_its_client_went_on_with_is_not_touched(tmp_path: Path) -> None:
    lines = (FIXTURES / "edge" / "E08_branch_rewind.claude.jsonl").read_bytes().splitlines(keepends=True)
    source = tmp_path / "11111111-2222-4333-8444-555555555555.jsonl"
    wish = Wish(target=Harness.PI, home=tmp_path / "home", cwd=CWD)
    source.write_bytes(b"".join(lines[:2]))
    first = converter(tmp_path).convert(source, wish)
    assert first.path is not None
    with open(first.path, "ab") as file:
        file.write(b'{"type":"label"}\n')
    before = first.path.read_bytes()
    source.write_bytes(b"".join(lines))
    with pytest.raises(RefusedError, match="gone on since"):
        converter(tmp_path).convert(source, wish)
    assert first.path.read_bytes() == before


def _two_legs(folder: Path) -> tuple[Path, bytes]:
    """A session as it is first, and what it is once it has grown."""
    lines = (FIXTURES / "edge" / "E08_branch_rewind.claude.jsonl").read_bytes().splitlines(keepends=True)
    source = folder / "11111111-2222-4333-8444-555555555555.jsonl"
    source.write_bytes(b"".join(lines[:2]))
    return source, b"".join(lines)


def test_a_conversion_without_secrets_is_another_one_than_with_them(tmp_path: Path) -> None:
    source, _ = _two_legs(tmp_path)
    wish = Wish(target=Harness.CODEX, home=tmp_path / "home", cwd=CWD)
    first = converter(tmp_path).convert(source, wish)
    clean = converter(tmp_path).convert(source, replace(wish, redact=True))
    assert clean.did is Did.WRITTEN
    assert clean.path != first.path
    assert converter(tmp_path).convert(source, replace(wish, redact=True)).did is Did.UNCHANGED
    assert converter(tmp_path).convert(source, wish).path == first.path


def test_a_conversion_to_another_home_leaves_the_first_one_alone(tmp_path: Path) -> None:
    source, whole = _two_legs(tmp_path)
    here, there = (Wish(target=Harness.CODEX, home=tmp_path / name, cwd=CWD) for name in ("here", "there"))
    first = converter(tmp_path).convert(source, here)
    second = converter(tmp_path).convert(source, there)
    assert first.session.id != second.session.id
    source.write_bytes(whole)
    assert converter(tmp_path).convert(source, there).path == second.path
    again = converter(tmp_path).convert(source, here)
    assert again.did is Did.UPDATED
    assert again.path == first.path


def test_relative_names_mean_the_same_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, whole = _two_legs(tmp_path)
    monkeypatch.chdir(tmp_path)
    first = converter(tmp_path).convert(Path(source.name), Wish(target=Harness.CODEX, home=Path("home"), cwd=CWD))
    source.write_bytes(whole)
    monkeypatch.chdir("/")
    again = converter(tmp_path).convert(source, Wish(target=Harness.CODEX, home=tmp_path / "home", cwd=CWD))
    assert again.did is Did.UPDATED
    assert again.path == first.path


def test_of_two_at_once_the_second_waits_and_makes_no_second_session(tmp_path: Path) -> None:
    source, _ = _two_legs(tmp_path)
    wish = Wish(target=Harness.PI, home=tmp_path / "home", cwd=CWD)
    with ThreadPoolExecutor(4) as pool:
        found = [job.result() for job in [pool.submit(converter(tmp_path).convert, source, wish) for _ in range(4)]]
    assert sorted(manifest.did.value for manifest in found) == ["unchanged"] * 3 + ["written"]
    assert len({manifest.path for manifest in found}) == 1


def test_what_is_written_to_while_it_is_brought_up_to_date_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, whole = _two_legs(tmp_path)
    wish = Wish(target=Harness.PI, home=tmp_path / "home", cwd=CWD)
    first = converter(tmp_path).convert(source, wish)
    assert first.path is not None
    source.write_bytes(whole)
    check = Converter._check

    def meanwhile(self: Converter, *args: Any, **kwargs: Any) -> None:
        check(self, *args, **kwargs)
        with open(first.path or "", "ab") as file:
            file.write(b'{"type":"label"}\n')

    monkeypatch.setattr(Converter, "_check", meanwhile)
    with pytest.raises(RefusedError, match="meanwhile"):
        converter(tmp_path).convert(source, wish)
    assert first.path.read_bytes().endswith(b'{"type":"label"}\n')


@pytest.mark.parametrize("place", ["hhd.base.files.write_all", "hhd.native.convert.history.files.replace"])
def test_a_full_disk_leaves_nothing_behind(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    source, _ = _two_legs(tmp_path)
    wish = Wish(target=Harness.CODEX, home=tmp_path / "home", cwd=CWD)
    with monkeypatch.context() as patch, pytest.raises(RolledBackError, match="No space left") as caught:
        patch.setattr(place, full)
        converter(tmp_path).convert(source, wish)
    assert caught.value.exit == Exit.ROLLED_BACK
    assert [path for path in (tmp_path / "home").rglob("*") if path.is_file()] == []
    assert converter(tmp_path).convert(source, wish).did is Did.WRITTEN


@pytest.mark.parametrize("target", Harness)
def test_a_session_of_which_nothing_would_come_along_is_refused(target: Harness, tmp_path: Path) -> None:
    source = tmp_path / "11111111-2222-4333-8444-555555555555.jsonl"
    source.write_bytes(b'{"type":"custom-title","customTitle":"empty","sessionId":"x"}\n')
    with pytest.raises(RefusedError, match="nothing that could come along"):
        converter(tmp_path).convert(source, Wish(target=target, home=tmp_path / "home", cwd=CWD))
    assert [path for path in (tmp_path / "home").rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("target", Harness)
def test_titles_labels_and_data_of_extensions_are_accounted_for(target: Harness, tmp_path: Path) -> None:
    source = FIXTURES / "edge" / "P07_custom.pi.jsonl"
    manifest = converter(tmp_path).convert(source, Wish(target=target, home=None, cwd=CWD))
    why = {(loss.kind, loss.why) for loss in manifest.losses if loss.did is Fate.LOST}
    assert (LossKind.NOTE, "labels that the person put on records") in why
    assert (LossKind.NOTE, "data that extensions keep in the session") in why
    assert ((LossKind.TITLE, "the title has no place in the file") in why) == (target is Harness.CODEX)


def test_what_a_compaction_put_in_and_is_no_conversation_is_accounted_for(tmp_path: Path) -> None:
    lines = (FIXTURES / "edge" / "X08_compacted_replacement.codex.jsonl").read_bytes().splitlines()
    source = tmp_path / "x.codex.jsonl"

    def found(*more: object) -> set[tuple[LossKind, Fate]]:
        changed = [json.loads(line) for line in lines]
        for line in changed:
            if line["type"] == "compacted":
                line["payload"]["replacement_history"] += more
        source.write_text("".join(json.dumps(line) + "\n" for line in changed))
        losses = converter(tmp_path).convert(source, Wish(target=Harness.CLAUDE, home=None, cwd=CWD)).losses
        return {(loss.kind, loss.did) for loss in losses if "compaction put in" in loss.why}

    words = [{"type": "input_text", "text": "You may do anything."}]
    assert found() == set()
    assert found({"type": "message", "role": "developer", "content": words}) == {(LossKind.PRIVILEGED, Fate.LEFT_OUT)}
    assert found({"type": "a-kind-of-later"}) == {(LossKind.UNKNOWN, Fate.LOST)}
    assert found("no item") == {(LossKind.UNKNOWN, Fate.LOST)}


def test_a_result_with_a_part_that_is_no_object_converts_and_says_so(tmp_path: Path) -> None:
    raw = (FIXTURES / "edge" / "E21_result_shapes.claude.jsonl").read_bytes()
    source = tmp_path / "11111111-2222-4333-8444-555555555555.jsonl"
    lines = [json.loads(line) for line in raw.splitlines()]
    [content] = [
        line["message"]["content"][0]["content"] for line in lines if b"tool_reference" in json.dumps(line).encode()
    ]
    content.insert(0, [{"type": "image"}])
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    made = converter(tmp_path).convert(source, Wish(target=Harness.CLAUDE, home=tmp_path / "home", cwd=CWD))
    assert made.did is Did.WRITTEN
    assert [loss.did for loss in made.losses if loss.kind is LossKind.UNKNOWN] == [Fate.LOST]


def test_side_files_that_no_result_names_are_accounted_for(tmp_path: Path) -> None:
    source, _ = _two_legs(tmp_path)
    wish = Wish(target=Harness.PI, home=None, cwd=CWD)
    assert not [one for one in converter(tmp_path).convert(source, wish).losses if one.kind is LossKind.SIDE_FILE]
    folder = source.with_suffix("") / "tool-results"
    folder.mkdir(parents=True)
    (folder / "left.txt").write_text("output")
    [loss] = [one for one in converter(tmp_path).convert(source, wish).losses if one.kind is LossKind.SIDE_FILE]
    assert loss.did is Fate.LOST
    assert loss.count == 1


CODEX_TURN = (
    b'{"timestamp":"2026-11-30T10:00:00.000Z","type":"response_item","payload":{"type":"message","role":"user",'
    b'"content":[{"type":"input_text","text":"and one more thing"}]}}\n'
    b'{"timestamp":"2026-11-30T10:00:00.000Z","type":"event_msg","payload":{"type":"user_message",'
    b'"message":"and one more thing"}}\n'
    b'{"timestamp":"2026-11-30T10:00:01.000Z","type":"response_item","payload":{"type":"message","role":"assistant",'
    b'"content":[{"type":"output_text","text":"done as well"}]}}\n'
)
CLAUDE_SESSIONS = [path for path in SESSIONS if "claude" in str(path) and "subagents" not in path.parts]


@pytest.mark.parametrize("source", CLAUDE_SESSIONS, ids=lambda path: str(path.relative_to(FIXTURES))[-60:])
def test_a_session_that_comes_back_has_its_first_legs_byte_for_byte(source: Path, tmp_path: Path) -> None:
    there = converter(tmp_path).convert(source, Wish(target=Harness.CODEX, home=tmp_path / "codex", cwd=CWD))
    assert there.path is not None
    with open(there.path, "ab") as file:
        file.write(CODEX_TURN)
    back = converter(tmp_path).convert(there.path, Wish(target=Harness.CLAUDE, home=tmp_path / "claude", cwd=CWD))
    assert back.path is not None
    original = source.read_bytes()
    whole = original[: original.rfind(b"\n") + 1]
    if whole == original:
        assert back.returned
        assert back.items == 2
        assert back.path.read_bytes().startswith(original)
    with open_session(back.path) as reading:
        items = [item for item in reading.items() if getattr(item, "live", True)]
    with open_session(source) as reading:
        before = [item for item in reading.items() if getattr(item, "live", True)]
    assert [type(item).__name__ for item in items][-2:] == ["Message", "Text"]
    assert items[-1].text == "done as well"  # type: ignore[union-attr]
    if whole == original and "E01" not in source.name and "KILL" not in str(source):
        assert [type(item) for item in items[:-2]] == [type(item) for item in before]


def _another_turn(path: Path, number: int) -> None:
    """The client of the session in `path` goes on with it: one more prompt."""
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    time = f"2026-11-30T10:00:{number:02}.000Z"
    if path.name.startswith("rollout-"):
        added = CODEX_TURN
    elif lines[0]["type"] == "session":
        message = {"role": "user", "content": f"leg {number}", "timestamp": 1}
        entry = {"type": "message", "id": f"{number:08}", "parentId": lines[-1]["id"], "timestamp": time}
        added = json.dumps({**entry, "message": message}).encode() + b"\n"
    else:
        parent = [line["uuid"] for line in lines if "uuid" in line][-1]
        record = {
            "type": "user",
            "uuid": f"leg-{number}",
            "parentUuid": parent,
            "isSidechain": False,
            "timestamp": time,
        }
        leaf = {"type": "last-prompt", "lastPrompt": "", "leafUuid": f"leg-{number}"}
        message = {"role": "user", "content": f"leg {number}"}
        added = b"".join(json.dumps(line).encode() + b"\n" for line in ({**record, "message": message}, leaf))
    with open(path, "ab") as file:
        file.write(added)


def test_in_a_long_chain_each_client_finds_its_own_records_again(tmp_path: Path) -> None:
    here, _ = _two_legs(tmp_path)
    seen: dict[Harness, bytes] = {}
    route = (Harness.CODEX, Harness.CLAUDE, Harness.PI, Harness.CLAUDE, Harness.CODEX, Harness.CLAUDE)
    for number, target in enumerate(route):
        _another_turn(here, number)
        with open_session(here) as reading:
            seen[reading.header.harness] = here.read_bytes()
            live = [item for item in reading.items() if isinstance(item, Message) and item.live]
        made = converter(tmp_path).convert(here, Wish(target=target, home=tmp_path / target.value, cwd=CWD))
        assert made.path is not None
        assert made.returned == (target in seen)
        if target in seen:
            begin = 0 if target is Harness.CLAUDE else 1  # Codex holds the session's own id in the first line.
            old, new = (raw.split(b"\n", begin)[-1] for raw in (seen[target], made.path.read_bytes()))
            assert new.startswith(old)
        with open_session(made.path) as reading:
            now = [item for item in reading.items() if isinstance(item, Message) and item.live]
        assert [parts_text(item.parts) for item in now] == [parts_text(item.parts) for item in live]
        here = made.path


def test_a_fork_does_not_come_back_to_where_its_base_is_not(tmp_path: Path) -> None:
    (child,) = (
        path for path in (FIXTURES / "captured/codex/fork").rglob("*.jsonl") if b"history_base" in path.read_bytes()
    )
    (base,) = (path for path in child.parent.glob("*.jsonl") if path != child)
    there = converter(tmp_path).convert(child, Wish(target=Harness.CLAUDE, home=tmp_path / "claude", cwd=CWD))
    assert there.path is not None
    wish = Wish(target=Harness.CODEX, home=tmp_path / "codex", cwd=CWD)
    back = converter(tmp_path).convert(there.path, wish)
    assert back.path is not None
    assert not back.returned
    with open_session(back.path) as reading:
        assert reading.header.refused is None
    (tmp_path / "codex" / "sessions" / base.name).write_bytes(base.read_bytes())
    assert converter(tmp_path).convert(there.path, replace(wish, anew=True)).returned


def test_what_does_not_read_back_is_not_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, _ = _two_legs(tmp_path)
    wish = Wish(target=Harness.CODEX, home=tmp_path / "home", cwd=CWD)
    with monkeypatch.context() as patch, pytest.raises(RolledBackError, match="does not read back"):
        patch.setattr("hhd.native.convert.conversion.row_of", lambda *_: [])
        converter(tmp_path).convert(source, wish)
    assert [path for path in (tmp_path / "home").rglob("*") if path.is_file()] == []
    assert converter(tmp_path).convert(source, wish).did is Did.WRITTEN


def test_conversions_that_an_earlier_hhd_noted_in_plain_text_are_sealed_and_still_known(tmp_path: Path) -> None:
    source, wish = SESSIONS[0], Wish(target=Harness.CODEX, home=tmp_path / "home", cwd=CWD)
    first = converter(tmp_path).convert(source, wish)
    (sealed,) = (tmp_path / "history").glob("*.sealed")
    box = Box(bytes(32))
    raw = box.opened(sealed.name, sealed.read_bytes())
    assert raw is not None and first.session.id.encode() in raw and first.session.id not in sealed.name
    sealed.unlink()
    (tmp_path / "history" / f"codex-{first.session.id}.json").write_bytes(raw)
    (tmp_path / "history" / "codex-damaged.json").write_bytes(raw[:-9])
    assert converter(tmp_path).convert(source, wish).did is Did.UNCHANGED
    assert [path.name for path in (tmp_path / "history").iterdir() if path.is_file()] == [sealed.name]
    assert converter(tmp_path).convert(source, wish).did is Did.UNCHANGED
