"""What has begun to come is there after a kill, as far as it is sound; bounded, and gone when nobody wants it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest

from hhd.store import begun as begun_module
from hhd.store.begun import SMALL_BYTES, UNWRITTEN_SECONDS, Begun
from hhd.store.errors import FullStoreError
from hhd_protocol.errors import FormatError
from hhd_protocol.ids import DeviceId
from hhd_protocol.limits import SYNC_BEGUN_MS_MAX
from hhd_protocol.sync.messages import OBJECT, Part

LAPTOP, TOWER = DeviceId(b"l" * 32), DeviceId(b"t" * 32)
NAME, OTHER = b"n" * 32, b"o" * 32
PIECE = 100_000
WHOLE = bytes(range(256)) * 8000
NOW = 1_800_000_000_000


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every piece is written when it comes."""
    monkeypatch.setattr(begun_module, "UNWRITTEN_SECONDS", 0.0)


def begun(folder: Path, room: Callable[[int], None] = lambda _: None, **more: int) -> Begun:
    return Begun(folder, room, now_ms=more.pop("now_ms", 0), **more)


def part(offset: int, name: bytes = NAME, whole: bytes = WHOLE) -> Part:
    return Part(what=OBJECT, name=name, offset=offset, total=len(whole), content=whole[offset : offset + PIECE])


def pieces(of: Begun, count: int, name: bytes = NAME, giver: DeviceId = LAPTOP) -> None:
    for number in range(count):
        assert of.add(part(number * PIECE, name), giver) is None


def file(folder: Path, name: bytes = NAME) -> Path:
    return folder / "begun" / name.hex()


def rest(of: Begun, giver: DeviceId = LAPTOP) -> bytes | None:
    whole = None
    while whole is None:
        whole = of.add(part(of.begun(NAME)), giver)
    return whole


@pytest.mark.usefixtures("at_once")
def test_it_is_gone_on_with_after_a_kill_and_stays_until_it_is_dropped(tmp_path: Path) -> None:
    pieces(begun(tmp_path), 5)
    again = begun(tmp_path)
    assert again.begun(NAME) == 5 * PIECE and again.came_from(NAME) == set()
    assert rest(again) == WHOLE
    once_more = begun(tmp_path)  # It was whole, and a kill came before it was kept: the last piece alone is missing.
    assert len(WHOLE) - PIECE <= once_more.begun(NAME) < len(WHOLE) and rest(once_more) == WHOLE
    once_more.drop(NAME)
    assert begun(tmp_path).in_files == 0 and not file(tmp_path).exists()


@pytest.mark.usefixtures("at_once")
def test_who_gave_it_is_known_until_the_process_ends(tmp_path: Path) -> None:
    one = begun(tmp_path)
    pieces(one, 2)
    assert one.came_from(NAME) == {LAPTOP}
    one.add(part(2 * PIECE), TOWER)
    assert one.came_from(NAME) == {LAPTOP, TOWER}
    again = begun(tmp_path)
    again.add(part(3 * PIECE), TOWER)
    assert TOWER not in again.came_from(NAME), "what it did not give cannot be told from what it gave"


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("torn", ["cut short", "a byte is otherwise", "zeros behind"])
def test_what_is_torn_is_cut_off_and_the_rest_gone_on_with(tmp_path: Path, torn: str) -> None:
    pieces(begun(tmp_path), 4)
    raw = bytearray(file(tmp_path).read_bytes())
    if torn == "cut short":
        del raw[-1:]
    elif torn == "a byte is otherwise":
        raw[-5] ^= 1
    else:
        raw[3 * (PIECE + 8) :] = bytes(PIECE + 8)
    file(tmp_path).write_bytes(raw)
    again = begun(tmp_path)
    assert again.begun(NAME) == 3 * PIECE
    assert file(tmp_path).stat().st_size == again.held_bytes == 3 * (PIECE + 8), "nothing torn counts, or stays"
    assert rest(again) == WHOLE


def test_a_piece_that_comes_again_is_passed_over_and_a_gap_is_refused(tmp_path: Path) -> None:
    one = begun(tmp_path)
    pieces(one, 3)
    assert one.add(part(0), LAPTOP) is None and one.begun(NAME) == 3 * PIECE
    with pytest.raises(FormatError, match="gap"):
        one.add(part(4 * PIECE), LAPTOP)
    assert rest(one) == WHOLE


@pytest.mark.usefixtures("at_once")
def test_more_than_the_whole_is_given_out_as_it_is_for_its_name_to_show_that(tmp_path: Path) -> None:
    pieces(begun(tmp_path), 15)
    shorter = Part(what=OBJECT, name=NAME, offset=0, total=SMALL_BYTES + 1, content=WHOLE[:PIECE])
    assert begun(tmp_path).add(shorter, LAPTOP) == WHOLE[: 15 * PIECE]


def test_small_ones_make_no_file(tmp_path: Path) -> None:
    one, small = begun(tmp_path), WHOLE[: 3 * PIECE]
    assert one.add(part(0, whole=small), LAPTOP) is None and one.held_bytes == PIECE and one.came_from(NAME) == {LAPTOP}
    assert one.add(part(PIECE, whole=small), LAPTOP) is None and not (tmp_path / "begun").exists()
    assert one.add(part(2 * PIECE, whole=small), LAPTOP) == small


def test_all_together_stay_within_their_bound_and_the_oldest_goes_first(tmp_path: Path) -> None:
    one = begun(tmp_path, bytes_max=8 * PIECE)
    pieces(one, 4)
    pieces(one, 3, OTHER)
    assert (one.begun(NAME), one.begun(OTHER)) == (4 * PIECE, 3 * PIECE)
    one.add(part(3 * PIECE, OTHER), LAPTOP)
    assert (one.begun(NAME), one.begun(OTHER)) == (0, 4 * PIECE) and not file(tmp_path).exists()


def test_the_one_that_nobody_went_on_with_goes_first_though_another_began_before(tmp_path: Path) -> None:
    one = begun(tmp_path, bytes_max=8 * PIECE)
    pieces(one, 2)
    pieces(one, 3, OTHER)
    one.add(part(2 * PIECE), LAPTOP)
    pieces(one, 3, b"p" * 32)
    assert (one.begun(NAME), one.begun(OTHER), one.begun(b"p" * 32)) == (3 * PIECE, 0, 3 * PIECE)


def test_small_ones_stay_within_the_bound_too(tmp_path: Path) -> None:
    one = begun(tmp_path, bytes_max=3 * PIECE)
    for number in range(9):
        one.add(part(0, bytes([number]) * 32, WHOLE[: 2 * PIECE]), LAPTOP)
    assert one.held_bytes <= 3 * PIECE and one.begun(bytes([8]) * 32) == PIECE


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_write_that_fails_half_way_leaves_what_was_there(tmp_path: Path, error: int) -> None:
    one = begun(tmp_path)
    pieces(one, 2)
    size, write = file(tmp_path).stat().st_size, os.pwrite

    def half(descriptor: int, content: memoryview, offset: int) -> int:
        if len(content) <= PIECE // 2:
            raise OSError(error, "no more")
        return write(descriptor, content[: len(content) - PIECE // 2], offset)

    with mock.patch.object(os, "pwrite", half), pytest.raises(FullStoreError if error == errno.ENOSPC else OSError):
        one.add(part(2 * PIECE), LAPTOP)
    assert file(tmp_path).stat().st_size == size and one.begun(NAME) == 2 * PIECE
    assert rest(one) == WHOLE


@pytest.mark.usefixtures("at_once")
def test_where_there_is_no_room_nothing_is_written_and_nothing_lost(tmp_path: Path) -> None:
    pieces(begun(tmp_path), 2)

    def full(size: int) -> None:
        raise FullStoreError("There is no room.")

    one = begun(tmp_path, full)
    with pytest.raises(FullStoreError):
        one.add(part(2 * PIECE), LAPTOP)
    assert one.begun(NAME) == 2 * PIECE and rest(begun(tmp_path)) == WHOLE


@pytest.mark.usefixtures("at_once")
def test_what_is_not_wanted_or_was_left_for_a_week_goes(tmp_path: Path) -> None:
    one = begun(tmp_path)
    pieces(one, 2)
    pieces(one, 2, OTHER)
    one.sweep(lambda name: name == NAME)
    assert file(tmp_path).exists() and not file(tmp_path, OTHER).exists()
    os.utime(file(tmp_path), (NOW / 1000, NOW / 1000))
    assert begun(tmp_path, now_ms=NOW + SYNC_BEGUN_MS_MAX).in_files == 1
    assert begun(tmp_path, now_ms=NOW + SYNC_BEGUN_MS_MAX + 1).in_files == 0


@pytest.mark.usefixtures("at_once")
def test_only_its_owner_reads_it_and_what_else_lies_there_is_left_alone(tmp_path: Path) -> None:
    pieces(begun(tmp_path), 1)
    assert file(tmp_path).stat().st_mode & 0o777 == 0o600 and file(tmp_path).parent.stat().st_mode & 0o777 == 0o700
    (tmp_path / "begun" / "notes.txt").write_text("mine")
    (tmp_path / "begun" / ("zz" * 32)).write_text("mine")
    one = begun(tmp_path)
    one.sweep(lambda _: False)
    assert {path.name for path in (tmp_path / "begun").iterdir()} == {"notes.txt", "zz" * 32}


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_what_comes_within_a_second_is_held_in_memory_and_written_then(tmp_path: Path) -> None:
    clock = Clock()
    one = Begun(tmp_path, lambda _: None, now_ms=0, clock=clock)
    pieces(one, 3)
    assert not file(tmp_path).exists() and one.begun(NAME) == 3 * PIECE and one.held_bytes == 3 * (PIECE + 8)
    assert one.in_files == 1 and one.came_from(NAME) == {LAPTOP}
    clock.now = UNWRITTEN_SECONDS
    assert one.add(part(3 * PIECE), LAPTOP) is None
    assert begun(tmp_path).begun(NAME) == 4 * PIECE, "it is there after a kill"
    clock.now += UNWRITTEN_SECONDS / 2
    assert one.add(part(4 * PIECE), LAPTOP) is None
    assert begun(tmp_path).begun(NAME) == 4 * PIECE and one.begun(NAME) == 5 * PIECE
    assert rest(one) == WHOLE
    one.drop(NAME)
    assert begun(tmp_path).in_files == 0 and one.held_bytes == 0


def test_what_is_in_memory_is_written_when_that_is_asked_for_and_gone_on_with_behind_a_file(tmp_path: Path) -> None:
    one = begun(tmp_path)
    pieces(one, 3)
    one.write()
    again = begun(tmp_path)
    assert again.begun(NAME) == 3 * PIECE
    assert again.add(part(3 * PIECE), TOWER) is None and rest(again) == WHOLE, "some of it in the file, and some not"
    again.write()
    assert begun(tmp_path).begun(NAME) == again.begun(NAME) > 3 * PIECE


def test_what_came_within_a_second_and_one_made_whole_leave_no_file(tmp_path: Path) -> None:
    one = begun(tmp_path)
    assert rest(one) == WHOLE and not (tmp_path / "begun").exists()


def test_pieces_in_memory_count_as_those_in_files_do(tmp_path: Path) -> None:
    asked: list[int] = []
    one = begun(tmp_path, asked.append, bytes_max=8 * PIECE)
    pieces(one, 4)
    pieces(one, 4, OTHER)
    assert asked == [PIECE] * 8 and one.held_bytes <= 8 * PIECE and one.begun(NAME) == 0


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("call", ["open", "mkdir"])
def test_a_file_that_cannot_be_made_since_there_is_no_room_is_said_as_that(tmp_path: Path, call: str) -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    of = begun(tmp_path)
    where = mock.patch.object(os, call, side_effect=full)
    with where, pytest.raises(FullStoreError):
        of.add(part(0), LAPTOP)
    assert of.begun(NAME) == 0
    pieces(of, 3)
    assert rest(of) == WHOLE
