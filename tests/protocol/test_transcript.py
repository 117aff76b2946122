"""The transcript: its encoding, its account, and its spec page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hhd_protocol import limits, transcript
from hhd_protocol.errors import FormatError
from hhd_protocol.transcript import (
    AccountBook,
    At,
    Call,
    Compaction,
    Did,
    Form,
    Gap,
    Harness,
    Header,
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
    SourceFile,
    Text,
    TextPart,
    Thinking,
    Verdict,
    decode_header,
    decode_item,
    encode_header,
    encode_item,
    well_formed,
)

ROOT = Path(__file__).parents[2]
VECTORS = ROOT / "protocol" / "vectors" / "transcript.jsonl"
SPEC = (ROOT / "protocol" / "spec" / "transcript.md").read_text()

HEADER = Header(harness=Harness.CLAUDE, id="s", files=(SourceFile(path="s.jsonl"),), cwds=("/home/alice",))
ITEMS: list[Item] = [
    Message(at=At(0, 1, "a"), parts=(TextPart("hello"), MediaPart(form="image", mime="image/png", base64="iVBO"))),
    Thinking(at=At(0, 2, "b"), text="hm", sealed="c2ln", sealed_form="signature", reply="m1", model="m"),
    Text(at=At(0, 3, "c"), text="I look.", reply="m1", model="m", time="2026-01-01T00:00:00.000Z"),
    Call(at=At(0, 4, "d"), id="t1", name="Bash", arguments='{"n": 1e22}', native="tool_use", reply="m1", model="m"),
    Result(at=At(0, 5, "e"), call="t1", parts=(TextPart("out"), OtherPart(form="x", json="{}")), outcome=Outcome.ERROR),
    Call(at=At(0, 6, "f"), id="t2", name="apply_patch", arguments="*** Begin", form=Form.TEXT, by_provider=True),
    Result(at=At(0, 6, "f"), call="t2", outcome=Outcome.MISSING),
    Compaction(at=At(0, 7, "g"), summary="so far", trigger="auto", kept_first=True, standins=1, tokens_before=9),
    Note(at=At(0, 7, "g", 1), kind=NoteKind.LOCAL_COMMAND, parts=(TextPart("/compact"),), label="command-name"),
    Shell(at=At(0, 8, "h"), command="ls", output="a", exit_code=1, live=False),
    Gap(at=At(0, 9, "i"), missing="z", bridged=False, behind=3),
]


def test_every_kind_of_item_has_a_vector_and_its_bytes_are_these() -> None:
    lines = VECTORS.read_bytes().splitlines()
    assert decode_header(lines[0]) == HEADER
    assert encode_header(HEADER) == lines[0]
    assert [encode_item(item) for item in ITEMS] == lines[1:]
    assert [decode_item(line) for line in lines[1:]] == ITEMS
    assert {type(item) for item in ITEMS} == set(Item.__args__)


def test_the_page_names_every_item_note_and_bound() -> None:
    for kind in Item.__args__:
        assert f"| `{kind.__struct_config__.tag}` |" in SPEC
        row = next(line for line in SPEC.splitlines() if line.startswith(f"| `{kind.__struct_config__.tag}` |"))
        fields = set(kind.__struct_fields__) - {"at", "time", "live"}
        assert fields <= set(re.findall(r"`(\w+)`", row)), kind
    for note in NoteKind:
        assert f"`{note.value}`" in SPEC
    for bound in (limits.ACCOUNT_TALLIES_MAX, limits.ACCOUNT_RANGES_MAX, limits.ACCOUNT_KIND_CHARS_MAX):
        assert str(bound) in SPEC


@pytest.mark.parametrize(
    "line", [b"", b"{", b'{"item":"future","at":[0,1]}', b'{"item":"text","at":[0,1]}', b"[" * 5000]
)
def test_a_line_that_is_no_item_is_refused(line: bytes) -> None:
    with pytest.raises(FormatError):
        decode_item(line)


@pytest.mark.parametrize("line", [b"{}", b'{"transcript":2,"harness":"pi","id":"x","files":[]}', b'{"transcript":1}'])
def test_a_header_without_this_version_is_refused(line: bytes) -> None:
    with pytest.raises(FormatError):
        decode_header(line)


@given(st.text(alphabet=st.characters(codec=None, categories=["Cs", "L"], max_codepoint=0xFFFF)))
def test_well_formed_text_can_be_encoded_and_other_characters_stay(text: str) -> None:
    fixed = well_formed(text)
    fixed.encode()
    assert well_formed(fixed) == fixed
    assert [c for c in text if not "\ud800" <= c <= "\udfff"] == [c for c in fixed if c != "�" and c < "\U00010000"]


def test_an_account_adds_up_and_stays_bounded() -> None:
    book = AccountBook()
    for line in range(1, 3001):
        book.add(Verdict.UNKNOWN, Reason.UNKNOWN_TYPE, f"kind-{line}" + "x" * 200, line)
    for line in range(3001, 9001, 2):
        book.used("user", line)
    account = book.close(6000)
    assert account.complete
    assert account.records == 6000
    assert account.count(Verdict.UNKNOWN) == 3000
    assert account.count(Verdict.USED, Reason.ITEM) == 3000
    assert len(account.tallies) <= limits.ACCOUNT_TALLIES_MAX + 2
    assert all(len(tally.lines) <= limits.ACCOUNT_RANGES_MAX for tally in account.tallies)
    assert not book.close(6001).complete


def test_changes_alike_are_gathered_with_the_place_of_the_first() -> None:
    book = AccountBook()
    for line in (4, 9):
        book.change(LossKind.TEXT, Did.CHANGED, "half a surrogate pair became U+FFFD", At(0, line))
    (loss,) = book.close(0).changes
    assert (loss.count, loss.source) == (2, At(0, 4))


def test_the_names_are_all_exported() -> None:
    assert all(hasattr(transcript, name) for name in transcript.__all__)
