"""The group as a store has it: what is kept, what is taken, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.node.circles import NOW, devices
from tests.protocol.circle import Circle, device

from hhd.base.errors import RefusedError
from hhd.node import programs, sessions
from hhd.node.handoff.steps import insist_on_target
from hhd.node.members import members
from hhd_protocol.crypto import public_key
from hhd_protocol.errors import FormatError
from hhd_protocol.group import decode
from hhd_protocol.limits import GROUP_DEVICES_MAX, GROUP_RECORDS_OF_ONE_MAX
from hhd_protocol.statements import Role


def test_a_device_that_was_never_paired_is_alone_and_full(tmp_path: Path) -> None:
    with devices(tmp_path, "laptop") as (laptop,):
        assert laptop.group.group is None and laptop.group.records() == []
        assert laptop.group.members().keys() == {laptop.me.id} == members(laptop.store, laptop.me).keys()
        assert laptop.group.trusted(laptop.me.id) and not laptop.group.take([b"junk"])


def test_a_device_that_joined_at_one_is_known_to_all(tmp_path: Path) -> None:
    with devices(tmp_path, "laptop", "desktop", "tower") as (laptop, desktop, tower):
        laptop.adds(desktop)
        desktop.adds(tower)
        laptop.hears(desktop)
        assert laptop.names == desktop.names == tower.names == {"laptop", "desktop", "tower"}
        assert laptop.group.trusted(tower.me.id) and members(laptop.store, laptop.me)[tower.me.id].live
        assert not laptop.group.take(tower.group.records()), "nothing of it is new"


def test_what_was_taken_is_there_after_the_store_was_opened_anew(tmp_path: Path) -> None:
    with devices(tmp_path, "laptop", "desktop") as (laptop, desktop):
        laptop.adds(desktop)
        raws = laptop.group.records()
    with devices(tmp_path, "laptop", "desktop") as (laptop, desktop):
        assert laptop.group.records() == raws and desktop.names == {"laptop", "desktop"}


def test_a_change_is_told_and_what_is_known_is_not(tmp_path: Path) -> None:
    with devices(tmp_path, "laptop", "desktop") as (laptop, desktop):
        heard: list[str] = []
        laptop.group.on_change(lambda: heard.append("laptop"))
        laptop.adds(desktop)
        assert heard == ["laptop", "laptop"], "added it, and took its word that it joined"
        laptop.hears(desktop)
        assert len(heard) == 2


def test_a_revoked_device_is_out_everywhere_and_may_do_nothing(tmp_path: Path) -> None:
    with devices(tmp_path, "laptop", "desktop", "tower") as (laptop, desktop, tower):
        laptop.adds(desktop)
        laptop.adds(tower)
        desktop.hears(laptop)
        desktop.group.revoke(tower.me.id, NOW)
        for one in (laptop, tower):
            one.hears(desktop)
            assert one.names == {"laptop", "desktop"}
        assert not tower.group.trusted(laptop.me.id), "who was put out speaks to nobody"
        assert not members(laptop.store, laptop.me)[tower.me.id].live
        for act in (
            lambda: tower.group.revoke(laptop.me.id, NOW),
            lambda: tower.group.add(public_key(b"x" * 32), "x", Role.FULL, NOW),
        ):
            before = tower.group.records()
            with pytest.raises(RefusedError, match="was put out of its group"):
                act()
            assert tower.group.records() == before
        laptop.adds(tower)
        assert laptop.names == tower.names == {"laptop", "desktop", "tower"}


@pytest.mark.parametrize("role", [Role.CONTROLLER, Role.STORE_ONLY])
def test_who_is_not_full_adds_and_revokes_nobody(tmp_path: Path, role: Role) -> None:
    with devices(tmp_path, "laptop", "phone") as (laptop, phone):
        laptop.adds(phone, role)
        with pytest.raises(RefusedError, match=f"is {role.value} in its group"):
            phone.group.revoke(laptop.me.id, NOW)
        laptop.group.revoke(phone.me.id, NOW)
        assert laptop.names == {"laptop"}


def test_a_device_in_a_group_with_others_joins_no_other(tmp_path: Path) -> None:
    with devices(tmp_path, "laptop", "desktop", "tower", "phone") as (laptop, desktop, tower, phone):
        laptop.adds(desktop)
        tower.adds(phone)
        tower.group.add(desktop.me.public, "desktop", Role.FULL, NOW)
        assert tower.group.group is not None
        with pytest.raises(RefusedError, match="in a group with 1 other"):
            desktop.group.join(tower.group.records(), tower.group.group.root, NOW)
        assert desktop.names == {"laptop", "desktop"}
        desktop.group.refound("desktop", NOW)
        desktop.group.join(tower.group.records(), tower.group.group.root, NOW)
        tower.hears(desktop)
        assert tower.names == desktop.names == {"tower", "phone", "desktop"}
        assert not members(tower.store, tower.me)[laptop.me.id].live, "what it said before counts, and it is no member"


def test_with_no_full_member_left_the_group_is_begun_anew_on_one(tmp_path: Path) -> None:
    with devices(tmp_path, "laptop", "desktop") as (laptop, desktop):
        laptop.adds(desktop)
        laptop.group.revoke(desktop.me.id, NOW)
        desktop.group.revoke(laptop.me.id, NOW)
        laptop.hears(desktop)
        desktop.hears(laptop)
        assert laptop.names == desktop.names == set()
        laptop.group.refound("laptop", NOW)
        assert laptop.names == {"laptop"} and desktop.names == set()
        laptop.adds(desktop)
        assert laptop.names == desktop.names == {"laptop", "desktop"}


def test_records_that_do_not_make_a_device_a_member_are_not_joined(tmp_path: Path) -> None:
    with devices(tmp_path, "laptop", "desktop", "tower") as (laptop, desktop, tower):
        laptop.adds(desktop)
        assert laptop.group.group is not None
        with pytest.raises(FormatError):
            tower.group.join(laptop.group.records(), laptop.group.group.root, NOW)
        assert tower.group.group is None and tower.group.records() == []


def test_a_damaged_record_is_refused_with_all_that_came_with_it(tmp_path: Path) -> None:
    with devices(tmp_path, "laptop", "desktop", "tower") as (laptop, desktop, tower):
        laptop.adds(desktop)
        laptop.adds(tower)
        good = laptop.group.records()
        for place in (10, 100, -1):
            bad = bytearray(good[-1])
            bad[place] ^= 1
            with pytest.raises(FormatError):
                desktop.group.take([*good, bytes(bad)])
        assert desktop.names == {"laptop", "desktop"}
        assert desktop.group.take(good) and desktop.names == {"laptop", "desktop", "tower"}


def test_strangers_fill_nothing(tmp_path: Path) -> None:
    with devices(tmp_path, "laptop", "desktop") as (laptop, desktop):
        laptop.adds(desktop)
        circle = Circle()
        for number in range(200):
            seed = f"stranger {number}".encode().ljust(32, b"\0")
            circle.add(seed, circle.found(seed), seed)
        before = laptop.group.records()
        assert not laptop.group.take([one.raw for one in circle.records])
        assert laptop.group.records() == before


def test_a_member_that_signs_too_much_fills_no_more_than_its_share_and_can_still_be_revoked(tmp_path: Path) -> None:
    with devices(tmp_path, "laptop", "desktop", "tower") as (laptop, desktop, tower):
        laptop.adds(desktop)
        laptop.adds(tower)
        group = laptop.group.group
        assert group is not None
        circle = Circle(records=[decode(raw) for raw in laptop.group.records()])
        root = next(one for one in circle.records if one.id == group.root)
        mine = next(one for one in circle.records if one.id == group.devices[desktop.me.id].memberships[0].id)
        for number in range(GROUP_RECORDS_OF_ONE_MAX + 50):
            saw = circle.records[:3]
            circle.add(desktop.me.seed, mine, f"puppet {number}".encode().ljust(32, b"\0"), saw=saw)
        puppets = [one.raw for one in circle.records]
        laptop.group.take(puppets)
        group = laptop.group.group
        assert len(group.given) <= GROUP_DEVICES_MAX
        laptop.group.revoke(desktop.me.id, NOW)
        tower.group.take(puppets[:10])
        tower.hears(laptop)
        assert desktop.me.id not in tower.group.members() and desktop.me.id not in laptop.group.members() and root


def test_the_right_to_approve_is_asked_for_by_device(tmp_path: Path) -> None:
    with devices(tmp_path, "laptop", "desktop") as (laptop, desktop):
        laptop.adds(desktop)
        assert laptop.group.may_approve(laptop.me.id) and not laptop.group.may_approve(desktop.me.id)
        laptop.group.allow(desktop.me.id, True, NOW)
        assert laptop.group.may_approve(desktop.me.id) and not desktop.group.may_approve(laptop.me.id)
        laptop.group.allow(desktop.me.id, False, NOW)
        assert not laptop.group.may_approve(desktop.me.id)


def test_devices_are_named_by_their_keys(tmp_path: Path) -> None:
    with devices(tmp_path, "laptop") as (laptop,):
        assert laptop.me.id == device(laptop.me.seed)
        with pytest.raises(RefusedError, match="the very device"):
            laptop.group.found("laptop", NOW)
            laptop.group.add(laptop.me.public, "again", Role.FULL, NOW)


def test_who_was_full_and_is_made_less_is_judged_as_before_and_given_nothing_more(tmp_path: Path) -> None:
    with devices(tmp_path, "laptop", "desktop") as (laptop, desktop):
        laptop.adds(desktop)
        insist_on_target(laptop.store, laptop.me, desktop.me.id)
        before = members(laptop.store, laptop.me)[desktop.me.id]
        assert before.full and before.now is Role.FULL
        for role in (Role.CONTROLLER, Role.STORE_ONLY):
            laptop.adds(desktop, role)
            for one in (laptop, desktop):
                found = members(one.store, one.me)[desktop.me.id]
                assert found.role is Role.FULL and found.live, "what it said as a full member counts on"
                assert found.now is role and not found.full
            with pytest.raises(RefusedError):
                insist_on_target(laptop.store, laptop.me, desktop.me.id)
        laptop.group.revoke(desktop.me.id, NOW)
        out = members(laptop.store, laptop.me)[desktop.me.id]
        assert out.now is None and not out.full and out.role is Role.FULL


@pytest.mark.parametrize("now", ["alone", "full", "controller", "store-only", "put out", "begun anew"])
def test_a_session_begins_on_full_members_only_and_else_nothing_is_changed(tmp_path: Path, now: str) -> None:
    with devices(tmp_path, "laptop", "desktop") as (laptop, desktop):
        if now != "alone":
            laptop.adds(desktop, Role(now) if now in [role.value for role in Role] else Role.FULL)
        if now in ("put out", "begun anew"):
            laptop.group.revoke(desktop.me.id, NOW)
            desktop.hears(laptop)
        if now == "begun anew":
            desktop.group.refound("desktop", NOW)
        args = programs.encode_args({"prompt": "go"})
        if now in ("alone", "full", "begun anew"):
            assert sessions.create(desktop.store, desktop.me, program="agent", args=args) in desktop.store.sessions()
        else:
            with pytest.raises(RefusedError, match="no session begins on it; nothing was changed"):
                sessions.create(desktop.store, desktop.me, program="agent", args=args)
            assert list(desktop.store.sessions()) == []
