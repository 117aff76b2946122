"""Who is a member: what a set of signed records means (`protocol/spec/group.md`)."""

from __future__ import annotations

import random

import pytest
from tests.protocol.circle import DESKTOP, LAPTOP, PHONE, THIEF, TOWER, Circle, device, names

from hhd_protocol.errors import TooLargeError
from hhd_protocol.group import Group, GroupRecord, resolve
from hhd_protocol.ids import SessionId, StatementId
from hhd_protocol.limits import GROUP_DEPTH_MAX, GROUP_RECORDS_MAX
from hhd_protocol.statements import Role

SESSION = SessionId(StatementId(b"s" * 32))
ONE, OTHER = StatementId(b"1" * 32), StatementId(b"2" * 32)


def in_any_order(circle: Circle, root: GroupRecord) -> Group:
    """The group, after it was looked at in some other orders, with repetitions."""
    group = circle.group(root)
    dice = random.Random(len(circle.records))
    for _ in range(5):
        shuffled = [*circle.records, *circle.records[:2]]
        dice.shuffle(shuffled)
        assert resolve(shuffled, root=root.id) == group
    return group


def three() -> tuple[Circle, GroupRecord, GroupRecord, GroupRecord]:
    """The laptop founded a group and added the desktop, which added the tower."""
    circle = Circle()
    root = circle.found()
    desktop = circle.add(LAPTOP, root, DESKTOP)
    return circle, root, desktop, circle.add(DESKTOP, desktop, TOWER)


def test_who_was_added_by_a_full_member_is_a_member_for_all() -> None:
    circle, root, _, tower = three()
    circle.add(TOWER, tower, PHONE, Role.CONTROLLER)
    group = in_any_order(circle, root)
    assert names(group.members) == {"laptop", "desktop", "tower", "phone"}
    assert names(group.full) == {"laptop", "desktop", "tower"}
    assert group.devices[device(PHONE)].role is Role.CONTROLLER


@pytest.mark.parametrize("role", [Role.CONTROLLER, Role.STORE_ONLY])
def test_only_full_members_add_and_revoke(role: Role) -> None:
    circle, root, desktop, _ = three()
    phone = circle.add(LAPTOP, root, PHONE, role)
    circle.add(PHONE, phone, THIEF)
    circle.revoke(PHONE, phone, desktop, whom=DESKTOP)
    assert names(in_any_order(circle, root).members) == {"laptop", "desktop", "tower", "phone"}


def test_a_stranger_adds_and_revokes_nobody() -> None:
    circle, root, desktop, _ = three()
    own = circle.found(THIEF)
    circle.add(THIEF, own, THIEF)
    circle.add(THIEF, root, THIEF)
    circle.revoke(THIEF, own, desktop, whom=DESKTOP)
    group = in_any_order(circle, root)
    assert names(group.members) == {"laptop", "desktop", "tower"} and device(THIEF) not in group.given


def test_a_membership_of_another_device_gives_no_right() -> None:
    circle, root, desktop, _ = three()
    phone = circle.add(LAPTOP, root, PHONE, Role.CONTROLLER)
    circle.add(PHONE, desktop, THIEF)
    assert "thief" not in names(circle.group(root).members) and phone


def test_a_revoked_device_is_out_and_who_it_added_before_stays() -> None:
    circle, root, desktop, _ = three()
    circle.revoke(LAPTOP, root, desktop, whom=DESKTOP)
    group = in_any_order(circle, root)
    assert names(group.members) == {"laptop", "tower"} and not group.fallen
    assert names(group.devices) == {"laptop", "desktop", "tower"}


def test_who_knows_of_its_own_revocation_revokes_and_adds_nobody() -> None:
    circle, root, desktop, _ = three()
    circle.revoke(LAPTOP, root, desktop, whom=DESKTOP)
    circle.revoke(DESKTOP, desktop, root, whom=LAPTOP)
    circle.add(DESKTOP, desktop, THIEF)
    assert names(in_any_order(circle, root).members) == {"laptop", "tower"}


def test_what_a_revoked_device_added_unseen_falls() -> None:
    circle, root, desktop, _ = three()
    before = list(circle.records)
    thief = circle.add(DESKTOP, desktop, THIEF)
    circle.add(THIEF, thief, PHONE)
    assert "phone" in names(circle.group(root).members)
    circle.revoke(LAPTOP, root, desktop, whom=DESKTOP, saw=before)
    group = in_any_order(circle, root)
    assert names(group.members) == {"laptop", "tower"} and names(group.fallen) == {"thief", "phone"}


def test_a_device_that_only_a_thief_added_cannot_bring_itself_in() -> None:
    """It revokes the thief, having seen that the thief added it; what another revocation did not see stays out."""
    circle, root, desktop, _ = three()
    before = list(circle.records)
    thief = circle.add(DESKTOP, desktop, THIEF)
    circle.revoke(THIEF, thief, desktop, whom=DESKTOP)
    circle.revoke(LAPTOP, root, desktop, whom=DESKTOP, saw=before)
    assert "thief" not in names(in_any_order(circle, root).members)


def test_mutual_revocation_puts_both_out() -> None:
    circle, root, desktop, _ = three()
    before = list(circle.records)
    circle.revoke(LAPTOP, root, desktop, whom=DESKTOP, saw=before)
    circle.revoke(DESKTOP, desktop, root, whom=LAPTOP, saw=before)
    assert names(in_any_order(circle, root).members) == {"tower"}


def test_a_ring_puts_all_out() -> None:
    circle, root, desktop, tower = three()
    before = list(circle.records)
    circle.revoke(LAPTOP, root, desktop, whom=DESKTOP, saw=before)
    circle.revoke(DESKTOP, desktop, tower, whom=TOWER, saw=before)
    circle.revoke(TOWER, tower, root, whom=LAPTOP, saw=before)
    group = in_any_order(circle, root)
    assert not group.members and not group.full and len(group.devices) == 3


def test_a_revocation_counts_whatever_its_signer_comes_to_later() -> None:
    circle, root, desktop, tower = three()
    before = list(circle.records)
    circle.revoke(DESKTOP, desktop, tower, whom=TOWER, saw=before)
    circle.revoke(LAPTOP, root, desktop, whom=DESKTOP, saw=before)
    assert names(in_any_order(circle, root).members) == {"laptop"}


def test_cut_offs_of_several_revocations_unite() -> None:
    circle, root, desktop, tower = three()
    before = list(circle.records)
    circle.revoke(LAPTOP, root, desktop, whom=DESKTOP, saw=before, cutoffs={SESSION: (ONE,)})
    circle.revoke(TOWER, tower, desktop, whom=DESKTOP, saw=before, cutoffs={SESSION: (OTHER,)})
    said = in_any_order(circle, root).revocations(SESSION)
    assert {one.last for one in said} == {ONE, OTHER} and {one.device for one in said} == {device(DESKTOP)}


def test_where_no_cut_off_is_named_nothing_counts() -> None:
    circle, root, desktop, _ = three()
    circle.revoke(LAPTOP, root, desktop, whom=DESKTOP)
    assert [one.last for one in circle.group(root).revocations(SESSION)] == [None]


def test_a_device_that_is_added_again_is_a_member_and_begins_a_new_chain() -> None:
    circle, root, desktop, _ = three()
    circle.revoke(LAPTOP, root, desktop, whom=DESKTOP, cutoffs={SESSION: (ONE,)})
    again = circle.add(LAPTOP, root, DESKTOP)
    group = in_any_order(circle, root)
    assert "desktop" in names(group.full)
    assert [one.anew for one in group.revocations(SESSION)] == [(again.id,)]
    circle.revoke(LAPTOP, root, again, whom=DESKTOP, cutoffs={SESSION: (OTHER,)})
    group = in_any_order(circle, root)
    assert "desktop" not in names(group.members)
    assert {(one.last, one.anew) for one in group.revocations(SESSION)} == {(ONE, ()), (OTHER, ())}


def test_two_that_add_one_device_at_a_time_make_it_the_lesser_of_two_roles() -> None:
    circle, root, desktop, _ = three()
    before = list(circle.records)
    circle.add(LAPTOP, root, PHONE, Role.FULL, saw=before)
    circle.add(DESKTOP, desktop, PHONE, Role.CONTROLLER, saw=before)
    live = in_any_order(circle, root).devices[device(PHONE)].live
    assert live is not None and live.role is Role.CONTROLLER


def test_a_group_begun_anew_keeps_what_former_members_said_and_none_of_their_rights() -> None:
    circle, root, desktop, tower = three()
    before = list(circle.records)
    circle.revoke(LAPTOP, root, desktop, whom=DESKTOP, saw=before, cutoffs={SESSION: (ONE,)})
    circle.revoke(DESKTOP, desktop, root, whom=LAPTOP, saw=before)
    anew = circle.found(LAPTOP, former=root)
    circle.revoke(LAPTOP, anew, tower, whom=TOWER, cutoffs={SESSION: (OTHER,)})
    circle.revoke(TOWER, tower, anew, whom=LAPTOP)
    circle.add(TOWER, tower, THIEF)
    group = in_any_order(circle, anew)
    assert names(group.members) == {"laptop"} and names(group.devices) == {"laptop", "desktop", "tower"}
    assert {one.last for one in group.revocations(SESSION)} == {ONE, OTHER}
    assert names(in_any_order(circle, root).members) == {"tower", "thief"}, "who follows the old root goes on there"


def test_who_joins_brings_what_its_own_group_revoked_and_nothing_else() -> None:
    circle = Circle()
    own = circle.found(PHONE)
    tower = circle.add(PHONE, own, TOWER)
    circle.add(PHONE, own, THIEF)
    circle.revoke(PHONE, own, tower, whom=TOWER, cutoffs={SESSION: (ONE,)})
    root = circle.found(LAPTOP)
    phone = circle.add(LAPTOP, root, PHONE)
    circle.join(PHONE, phone, former=own)
    group = in_any_order(circle, root)
    assert names(group.members) == {"laptop", "phone"} and names(group.devices) == {"laptop", "phone", "tower"}
    assert [one.last for one in group.revocations(SESSION)] == [ONE]


def test_the_right_to_approve_is_each_devices_own_to_give_and_the_last_word_counts() -> None:
    circle, root, desktop, tower = three()
    circle.allow(LAPTOP, root, desktop, True)
    assert circle.group(root).approvals == {(device(LAPTOP), device(DESKTOP))}
    circle.allow(LAPTOP, root, desktop, False)
    circle.allow(TOWER, tower, desktop, True)
    assert in_any_order(circle, root).approvals == {(device(TOWER), device(DESKTOP))}
    before = list(circle.records)
    circle.allow(LAPTOP, root, desktop, True, saw=before)
    circle.allow(LAPTOP, root, desktop, False, saw=before)
    assert (device(LAPTOP), device(DESKTOP)) not in in_any_order(circle, root).approvals
    circle.revoke(LAPTOP, root, desktop, whom=DESKTOP)
    circle.add(LAPTOP, root, DESKTOP)
    assert not circle.group(root).approvals, "who is added again was not allowed again"


def test_introductions_beyond_the_bound_are_none() -> None:
    circle = Circle()
    root = at = circle.found()
    by = LAPTOP
    for number in range(GROUP_DEPTH_MAX + 2):
        whom = b"device %d".ljust(20, b".") % number
        whom = whom.ljust(32, b"\0")
        at = circle.add(by, at, whom)
        by = whom
    assert len(circle.group(root).members) == GROUP_DEPTH_MAX + 1


def test_too_many_records_are_refused() -> None:
    root = Circle().found()
    with pytest.raises(TooLargeError):
        resolve([root] * (GROUP_RECORDS_MAX + 1), root=root.id)
    assert resolve([root] * GROUP_RECORDS_MAX, root=root.id).members


def test_a_root_that_is_not_here_has_no_members() -> None:
    circle, root, _, _ = three()
    assert not resolve(circle.records[1:], root=root.id).members
