"""A name means one thing or none: never a guess between two."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.node.lines import made

from hhd.base.errors import RefusedError, UsageError
from hhd.node import naming
from hhd.node import store as door
from hhd.node.naming import Named, chosen
from hhd.store.store import Store
from hhd_protocol.crypto import device_text
from hhd_protocol.ids import CheckpointId, DeviceId, StatementId

THINGS = [Named("aa11", ("parser",)), Named("aa22", ("parser fix",)), Named("bb33", ("Größe",)), Named("cc44")]


@pytest.mark.parametrize(
    ("name", "place"),
    [("parser", 0), ("parser ", 0), ("PARSER F", 1), ("aa1", 0), ("AA22", 1), ("grö", 2), ("GRÖSSE", 2), ("c", 3)],
)
def test_an_id_a_title_or_the_begin_of_one_means_one_thing(name: str, place: int) -> None:
    assert chosen(name, THINGS, "session") == place


def test_letters_composed_in_two_ways_are_one_name() -> None:
    assert chosen("Gro\u0308ße", THINGS, "session") == 2


@pytest.mark.parametrize("name", ["aa", "pars", "PARS"])
def test_what_may_mean_several_is_a_usage_error_that_lists_them(name: str) -> None:
    with pytest.raises(UsageError, match=r"aa11 \(parser\), aa22 \(parser fix\)"):
        chosen(name, THINGS, "session")


def test_a_long_list_of_what_it_may_mean_is_cut() -> None:
    with pytest.raises(UsageError, match="and 92 more"):
        chosen("x", [Named(f"x{n:03}") for n in range(100)], "session")


@pytest.mark.parametrize("name", ["zz", "aa112", "fix", "bb33x"])
def test_what_means_nothing_is_refused(name: str) -> None:
    with pytest.raises(RefusedError, match="There is no session"):
        chosen(name, THINGS, "session")


@pytest.mark.parametrize("name", ["", " ", "\u00a0"])
def test_an_empty_name_is_a_usage_error(name: str) -> None:
    with pytest.raises(UsageError, match="empty"):
        chosen(name, THINGS, "session")


def test_a_hostile_name_is_said_safely_and_short() -> None:
    for name in ("\x1b[2J\u202e", "x" * 1_000_000):
        with pytest.raises(RefusedError) as refusal:
            chosen(name, THINGS, "session")
        assert len(str(refusal.value)) < 200 and "\x1b" not in str(refusal.value) and "\u202e" not in str(refusal.value)
    hostile = [Named("a1", ("\x1b[2J" + "y" * 1_000_000,)), Named("a2")]
    with pytest.raises(UsageError) as ambiguous:
        chosen("a", hostile, "session")
    assert len(str(ambiguous.value)) < 300 and "\x1b" not in str(ambiguous.value)


@pytest.fixture
def store() -> Iterator[Store]:
    with door.opened() as opened:
        yield opened


def test_sessions_are_named_by_title_or_id_and_two_of_one_title_by_id_only(store: Store) -> None:
    one, other = made(store, "fix"), made(store, "fix")
    third = made(store, "")
    assert naming.session(store, one.id.hex()).id == one.id
    assert naming.session(store, one.id.hex()[:20]).id == one.id
    with pytest.raises(UsageError, match="may mean"):
        naming.session(store, "fix")
    other.list(title="fixed")
    store.catalogue.remove(other.id)
    assert naming.session(store, third.id.hex()[:20]).title == ""
    with pytest.raises(RefusedError):
        naming.session(store, "g" * 64)


def test_a_device_is_named_by_its_name_or_its_id_with_or_without_dashes() -> None:
    devices = [(DeviceId(bytes([n]) * 32), name) for n, name in enumerate(("laptop", "desktop", ""))]
    text = device_text(devices[2][0])
    for name, place in (("lap", 0), ("Desktop", 1), (text[:9], 2), (text.replace("-", "")[:9].upper(), 2)):
        assert naming.device(devices, name) == devices[place][0]
    with pytest.raises(RefusedError, match="no device"):
        naming.device(devices, "phone")


def test_a_checkpoint_is_named_by_the_begin_of_its_id() -> None:
    ids = [CheckpointId(StatementId(bytes([n, 7]) * 16)) for n in range(3)]
    assert naming.checkpoint_of(ids, "0107") == ids[1]
    for name, kind in (("0", UsageError), ("", UsageError), ("ff", RefusedError)):
        with pytest.raises(kind):
            naming.checkpoint_of(ids, name)
