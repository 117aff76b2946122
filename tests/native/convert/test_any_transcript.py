"""Any transcript that the model can express, through each writer and back."""

from __future__ import annotations

import tempfile
import uuid
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from tests.native.convert.transcripts import Invented, sessions, unaccounted

from hhd.base.box import Box
from hhd.base.errors import RefusedError
from hhd.native.convert.conversion import Converter, Reading, Wish
from hhd.native.convert.history import History
from hhd.native.opening import open_session
from hhd_protocol.transcript import At, Call, Compaction, Harness, Header, Message, Result, SourceFile, TextPart


def convert(source: Invented, target: Harness, folder: Path) -> tuple[list[object], object]:
    path = folder / "source"
    path.write_bytes(b"x\n")

    def opened(which: Path) -> Reading:
        return source if which == path else open_session(which, harness=target)

    converter = Converter(
        open_reading=opened,
        history=History(folder / "history", Box(bytes(32))),
        error_key=b"k" * 32,
        fresh_id=lambda: str(uuid.uuid4()),
    )
    try:
        manifest = converter.convert(path, Wish(target=target, home=folder / "home", cwd="/home/bob/w", anew=True))
    except RefusedError as error:
        assert "nothing that could come along" in str(error)
        manifest = converter.convert(path, Wish(target=target, home=None, cwd="/home/bob/w"))
        assert manifest.items == 0
        return [], manifest.losses
    assert manifest.path is not None
    with open_session(manifest.path, harness=target) as reading:
        return list(reading.items()), manifest.losses


@pytest.mark.parametrize("target", Harness)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(source=sessions())
def test_what_is_read_back_is_what_was_meant_and_nothing_is_lost_silently(target: Harness, source: Invented) -> None:
    # The conversion itself compares what it wrote with what it meant, item by item, and raises where they differ.
    with tempfile.TemporaryDirectory() as folder:
        items, losses = convert(source, target, Path(folder))
    calls = [item.id for item in items if isinstance(item, Call)]
    assert sorted(calls) == sorted(item.call for item in items if isinstance(item, Result))
    assert len(set(calls)) == len(calls)
    assert unaccounted(source.all_items, items, losses) == []  # type: ignore[arg-type]


@pytest.mark.long
@pytest.mark.parametrize("target", Harness)
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(source=sessions())
def test_the_same_for_many_more(target: Harness, source: Invented) -> None:
    with tempfile.TemporaryDirectory() as folder:
        items, losses = convert(source, target, Path(folder))
    assert unaccounted(source.all_items, items, losses) == []  # type: ignore[arg-type]


def test_a_kept_text_equal_to_the_summary_stays_what_the_person_said(tmp_path: Path) -> None:
    said = Message(at=At(0, 1, "r1"), parts=(TextPart("the same words"),))
    fold = Compaction(at=At(0, 2, "r2"), summary="the same words")
    header = Header(harness=Harness.CLAUDE, id="11111111-2222-4333-8444-555555555555", files=(SourceFile(path="x"),))
    items, _ = convert(Invented(header=header, all_items=[said, fold]), Harness.CODEX, tmp_path)
    assert [(type(item).__name__, getattr(item, "summary", None)) for item in items] == [
        ("Compaction", "the same words"),
        ("Message", None),
    ]
