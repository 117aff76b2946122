"""`hhd devices`, `rename-device` and `unpair`: what a person is told of their devices, and what is done."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from tests.cli.test_hostile_text import HOSTILE, hidden
from tests.node.circles import NOW, identity
from tests.node.lines import made, turn

from hhd.app import daemons, peering, syncing
from hhd.base.errors import RefusedError
from hhd.cli import run
from hhd.cli.keyboard import Keyboard
from hhd.node import listing, overview, registry
from hhd.node import store as door
from hhd.node.answers.pairing import PairingStep
from hhd.node.answers.peers import Around, Fixed, Peer
from hhd.node.answers.syncing import Flow, Held, Syncings
from hhd.node.group import Membership
from hhd.node.handoff.steps import devices_of
from hhd_protocol.crypto import device_text
from hhd_protocol.group import Add, Found, Join, decode, sign
from hhd_protocol.limits import TITLE_BYTES_MAX
from hhd_protocol.statements import Role

DESKTOP, PHONE = identity("desktop"), identity("phone")


@pytest.fixture
def own(_own_folders: None) -> None:
    """A device with folders of its own."""


def paired(name: str = "desktop", role: Role = Role.FULL) -> None:
    """Take the desktop in, which says that it joined, and the phone as a controller."""
    with door.opened() as store:
        membership = Membership(store, door.identity())
        membership.found("laptop", NOW)
        id = membership.add(DESKTOP.public, name, role, NOW)
        assert membership.group is not None
        body = Join(public=DESKTOP.public, seen=membership.group.ends, under=id, at_ms=NOW)
        membership.take([sign(body, DESKTOP.seed).raw])
        membership.add(PHONE.public, "phone", Role.CONTROLLER, NOW)


def said(capfd: pytest.CaptureFixture[str], *words: str, status: int = 0) -> str:
    assert run(list(words)) == status
    out, err = capfd.readouterr()
    return out + err


def told(capfd: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert run([*words, "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert isinstance(found, dict)
    return found


def test_a_device_alone_says_how_to_pair(own: None, capfd: pytest.CaptureFixture[str]) -> None:
    assert "hhd pair" in said(capfd, "devices")
    assert [one["here"] for one in told(capfd, "devices")["members"]] == [True]
    for words in (["unpair", "desktop", "--yes"], ["devices", "allow", "desktop", "approve"]):
        assert "no device 'desktop'" in said(capfd, *words, status=3)
    assert "in no group" in said(capfd, "devices", "refound", "--yes", status=3)


def test_each_device_is_listed_with_its_whole_id(own: None, capfd: pytest.CaptureFixture[str]) -> None:
    paired()
    shown = said(capfd, "devices")
    for device in (door.identity().id, DESKTOP.id, PHONE.id):
        assert device_text(device) in shown
    assert "controller" in shown and "has not said yet that it joined" in shown
    members = told(capfd, "devices")["members"]
    assert [one["name"] for one in members[1:]] == ["desktop", "phone"] and members[0]["here"]
    assert [one["joined"] for one in members] == [True, True, False]


def test_the_right_to_approve_is_given_and_taken(own: None, capfd: pytest.CaptureFixture[str]) -> None:
    paired()
    shown = said(capfd, "devices", "allow", "phone", "approve")
    assert "may approve for this device now" in shown and device_text(PHONE.id) in shown
    assert "may approve for this device" in said(capfd, "devices")
    assert told(capfd, "devices", "allow", "phone", "approve", "--no")["after"] is False
    assert "may approve" not in said(capfd, "devices")
    assert "very device" in said(capfd, "devices", "allow", door.identity().text[:14], "approve", status=2)


def test_a_device_that_only_stores_sees_no_question_and_is_given_no_right_to_answer_one(
    own: None, capfd: pytest.CaptureFixture[str]
) -> None:
    paired(role=Role.STORE_ONLY)
    assert "only stores" in said(capfd, "devices", "allow", "desktop", "approve", status=3)
    assert "may approve" not in said(capfd, "devices")


def test_a_device_is_called_what_its_person_says(own: None, capfd: pytest.CaptureFixture[str]) -> None:
    paired()
    assert "big one" in said(capfd, "rename-device", "desktop", "big one")
    shown = said(capfd, "rename-device", "big one", "Phone")
    assert "Two of your devices are called 'Phone' now" in shown and "without knowing" not in shown
    begin = device_text(DESKTOP.id)[:9]
    assert "are called" not in said(capfd, "rename-device", begin, "big one")
    assert [one["name"] for one in told(capfd, "devices")["members"][1:]] == ["big one", "phone"]
    assert told(capfd, "rename-device", "big one", "desktop")["before"] == "big one"
    assert "empty" in said(capfd, "rename-device", "desktop", "", status=2)


def test_no_device_is_called_what_means_this_one_or_is_an_id_and_one_that_calls_itself_so_is_shown_by_its_id(
    own: None, capfd: pytest.CaptureFixture[str]
) -> None:
    paired("This  Device")
    assert [one["name"] for one in told(capfd, "devices")["members"][1:]] == ["", "phone"]
    begin = device_text(DESKTOP.id)[:9]
    assert f"{begin}  full" in said(capfd, "devices")
    assert DESKTOP.id[:16] not in overview.overview("", with_archived=False, exact=False).names
    for title in (
        "here",
        " HERE ",
        "this device",
        device_text(PHONE.id),
        device_text(PHONE.id)[:9],
        identity("tower").text,
    ):
        assert "No device can be called" in said(capfd, "rename-device", begin, title, status=2), title
    assert "hereafter" in said(capfd, "rename-device", begin, "hereafter")
    assert overview.overview("", with_archived=False, exact=False).names[DESKTOP.id[:16]] == "hereafter"


def test_two_devices_of_one_name_are_proposed_by_their_ids(own: None) -> None:
    paired("phone")
    with door.opened() as store:
        known = devices_of(store, door.identity())
        assert known.word(DESKTOP.id) == device_text(DESKTOP.id) and known.word(PHONE.id) == device_text(PHONE.id)
        registry.opened(store).name_device(DESKTOP.id, "desk top")
        known = devices_of(store, door.identity())
        assert known.word(DESKTOP.id) == device_text(DESKTOP.id) and known.word(PHONE.id) == "phone"


def test_of_a_member_that_has_not_joined_yet_nothing_is_said_to_be_known(
    own: None, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    paired()
    with door.opened() as store:
        Membership(store, door.identity()).add(identity("tower").public, "tower", Role.FULL, NOW)
    lines = [line.strip() for line in said(capfd, "devices").splitlines()]
    tower, desktop = lines.index(device_text(identity("tower").id)), lines.index(device_text(DESKTOP.id))
    assert lines[tower + 1] == "nothing is known yet of what it has" and lines[desktop + 1] == "has everything"


def test_at_the_question_of_pair_the_end_of_input_is_a_no(
    own: None, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = []

    def steps(role: str) -> Iterator[PairingStep]:
        yield PairingStep(kind="question", words=("a", "b", "c"), device=device_text(PHONE.id), name="phone")
        raise RefusedError("The pairing was refused; nothing was changed.")

    monkeypatch.setattr(daemons, "up", lambda: None)
    monkeypatch.setattr(peering, "pair_show", steps)
    monkeypatch.setattr(peering, "pair_answer", lambda yes, words: answered.append((yes, words)) is None)
    monkeypatch.setattr(Keyboard, "line", lambda self, prompt: None)
    assert "nothing was changed" in said(capfd, "pair", status=3) and answered == [(False, ("a", "b", "c"))]


@pytest.mark.parametrize("line", ["y", "n"])
def test_an_answer_that_comes_too_late_hears_what_happened_meanwhile(
    own: None, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    def steps(role: str) -> Iterator[PairingStep]:
        yield PairingStep(kind="code", code="1234-5678", seconds=299)
        yield PairingStep(kind="question", words=("a", "b", "c"), device=device_text(PHONE.id), name="phone")
        raise RefusedError("It was declined on the other device.")

    monkeypatch.setattr(daemons, "up", lambda: None)
    monkeypatch.setattr(peering, "pair_show", steps)
    monkeypatch.setattr(peering, "pair_answer", lambda yes, words: False)
    monkeypatch.setattr(Keyboard, "line", lambda self, prompt: line)
    shown = said(capfd, "pair", status=3)
    assert "It was declined on the other device." in shown and "too long" not in shown and "within 5 minutes" in shown


def test_ctrl_c_at_pair_says_whether_something_may_have_changed(
    own: None, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def steps(role: str) -> Iterator[PairingStep]:
        yield PairingStep(kind="question", words=("a", "b", "c"), device=device_text(PHONE.id), name="phone")
        raise KeyboardInterrupt

    monkeypatch.setattr(daemons, "up", lambda: None)
    monkeypatch.setattr(peering, "pair_show", steps)
    monkeypatch.setattr(peering, "pair_answer", lambda yes, words: True)
    for line, status, told in (("n", 3, "nothing was changed"), ("y", 5, "hhd devices")):
        monkeypatch.setattr(Keyboard, "line", lambda self, prompt, line=line: line)
        assert told in said(capfd, "pair", status=status)


def test_a_role_is_said_where_the_code_is_shown_and_nowhere_in_vain(
    own: None, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = list[str]()

    def steps(role: str) -> Iterator[PairingStep]:
        shown.append(role)
        yield PairingStep(kind="done", device=device_text(PHONE.id), name="x" * 500, role=role)

    monkeypatch.setattr(daemons, "up", lambda: None)
    monkeypatch.setattr(peering, "pair_show", steps)
    assert "device that shows the code" in said(capfd, "pair", "0000-0000", "--role", "store-only", status=2)
    lines = said(capfd, "pair", "--role", "store-only") + said(capfd, "pair")
    assert shown == ["store-only", "full"] and "x" * 79 + "…" in lines and "x" * 80 not in lines


def test_unpairing_says_what_was_there_and_who_was_added(own: None, capfd: pytest.CaptureFixture[str]) -> None:
    paired()
    with door.opened() as store:
        session = made(store, "the parser", [turn(1)])
        session.takeover(store.heads(session.id)[0], prev=session.create, by=DESKTOP.seed)
        membership = Membership(store, door.identity())
        assert membership.group is not None
        mine = membership.group.devices[DESKTOP.id].memberships[0].id
        tower = identity("tower")
        body = Add(
            public=DESKTOP.public,
            seen=membership.group.ends,
            under=mine,
            at_ms=NOW,
            member=tower.public,
            name="tower",
            role=Role.FULL,
        )
        membership.take([sign(body, DESKTOP.seed).raw])
    shown = said(capfd, "unpair", "desktop", "--yes")
    assert "is put out" in shown and device_text(DESKTOP.id) in shown
    assert f"1 session was there: {session.id.hex()[:12]}" in shown and "takeover" in shown
    assert "It had added tower" in shown
    found = told(capfd, "devices")
    assert [one["name"] for one in found["members"][1:]] == ["phone", "tower"]
    assert [one["name"] for one in found["former"]] == ["desktop"]
    assert "no device 'desktop'" in said(capfd, "unpair", "desktop", "--yes", status=3)
    assert "Put out: desktop" in said(capfd, "devices")


def test_nothing_is_put_out_without_a_yes(
    own: None, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    paired()
    answers: Iterator[str | None] = iter((None, None, "no", "y"))
    monkeypatch.setattr(Keyboard, "line", lambda self, prompt: next(answers))
    shown = said(capfd, "unpair", "deskt", status=3)
    assert "Nobody agreed" in shown and device_text(DESKTOP.id) in shown, "it is said which one is meant"
    said(capfd, "unpair", "desktop", "--json", status=2)
    shown = said(capfd, "devices", "refound", status=3)
    assert "Nobody agreed" in shown and "desktop" in shown
    assert len(told(capfd, "devices")["members"]) == 3
    said(capfd, "unpair", "desktop", status=3)
    assert "is put out" in said(capfd, "unpair", "desktop")
    assert len(told(capfd, "devices")["members"]) == 2


def test_a_device_that_there_is_not_is_said_before_anything_is_asked(
    own: None, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    paired()
    monkeypatch.setattr(Keyboard, "line", lambda self, prompt: pytest.fail("nothing is to be asked"))
    shown = said(capfd, "unpair", "destkop", status=3)
    assert "no device 'destkop'" in shown and "Put it out?" not in shown


def test_a_device_does_not_put_itself_out_and_begins_anew_instead(own: None, capfd: pytest.CaptureFixture[str]) -> None:
    paired()
    assert "does not put itself out" in said(capfd, "unpair", door.identity().text[:14], "--yes", status=3)
    shown = said(capfd, "devices", "refound", "--yes")
    assert "only one of its group" in shown and "desktop" in shown
    found = told(capfd, "devices")
    assert len(found["members"]) == 1 and len(found["former"]) == 2


def test_a_device_that_was_put_out_is_told_so(own: None, capfd: pytest.CaptureFixture[str]) -> None:
    """The desktop, which founded the group, revoked it."""
    me = door.identity()
    found = sign(Found(public=DESKTOP.public, name="desktop", at_ms=NOW), DESKTOP.seed)
    head = {"public": DESKTOP.public, "under": found.id, "at_ms": NOW}
    add = sign(Add(**head, seen=(found.id,), member=me.public, name="laptop", role=Role.FULL), DESKTOP.seed)
    with door.opened() as store:
        membership = Membership(store, me)
        membership.join([found.raw, add.raw], found.id, NOW)
        from hhd_protocol.group import Revoke

        ends = tuple(sorted(decode(raw).id for raw in membership.records()))
        gone = Revoke(**head, seen=ends, device=me.id, memberships=(add.id,))
        membership.take([sign(gone, DESKTOP.seed).raw])
    assert "was put out of its group" in said(capfd, "devices")
    assert told(capfd, "devices")["out"] is True
    assert "was put out of its group" in said(capfd, "unpair", "desktop", "--yes", status=3)


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_name_of_a_device_is_shown_as_text(own: None, capfd: pytest.CaptureFixture[str], kind: str) -> None:
    paired(HOSTILE[kind].encode()[: TITLE_BYTES_MAX - 8].decode("utf-8", "ignore"))
    begin = device_text(DESKTOP.id)[:14]
    calls = (
        ["devices"],
        ["devices", "allow", begin, "approve"],
        ["rename-device", begin, "plain"],
        ["rename-device", begin, HOSTILE[kind][:200]],
        ["unpair", begin, "--yes"],
        ["devices"],
        ["devices", "--json"],
    )
    shown = [said(capfd, *words) for words in calls]
    assert not hidden("".join(shown))
    assert all("Mark" in shown[at] for at in (0, 1, 3, 4, 5))
    assert max(map(len, "".join(shown[:-1]).splitlines())) < 1000


def test_each_device_says_when_it_was_seen_what_it_lacks_and_what_holds_it(
    own: None, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    paired()
    id = device_text(DESKTOP.id)
    peer = Peer(id=id, name="desktop", role="full", linked=False, address="", seen_ms=5, ago_ms=7_260_000, trouble="")
    monkeypatch.setattr(peering, "peers_now", lambda: (peer,))
    flow = Flow(
        device=id, name="desktop", linked=False, sent=2_500_000, received=10, behind=2, checkpoints=31, bytes=1_234_567,
        at_least=False, waiting=0, holding="its disk has no room left\x1b", limits=(),
    )  # fmt: skip
    now = Syncings(
        paused="its person paused it", frugal="this device is on battery", holding="its person paused it", wanted=0,
        flows=(flow,), held=(Held(session="ab" * 32, device=id, name="desktop"),), trouble="",
    )  # fmt: skip
    monkeypatch.setattr(syncing, "status", lambda: now)
    lines = said(capfd, "devices").splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("desktop"))
    assert "last linked 2h ago" in lines[at] and lines[at + 1].strip() == id
    assert [line.strip() for line in lines[at + 2 : at + 5]] == [
        "lacks 31 checkpoints of 2 sessions, 1.2 MB, 2.5 MB sent, 10 B received",
        "takes no content: its disk has no room left\\x1b",
        "1 session waits for your word before going there: hhd sync",
    ]
    assert [line.strip() for line in lines[2:5]] == [
        "Content is not taken: its person paused it.",
        "hhd sync --resume goes on",
        "Content goes together, twice a minute: this device is on battery.",
    ]
    found = told(capfd, "devices")
    assert found["sync"]["flows"][0]["checkpoints"] == 31 and found["peers"][0]["ago_ms"] == 7_260_000
    for ago, seen, words in ((None, 5, "this device's clock was set"), (None, 0, "never linked"), (0, 5, "0s ago")):
        monkeypatch.setattr(peering, "peers_now", lambda ago=ago, seen=seen: (replace(peer, ago_ms=ago, seen_ms=seen),))
        assert words in said(capfd, "devices")


def test_without_a_daemon_it_is_said_what_others_lack(own: None, capfd: pytest.CaptureFixture[str]) -> None:
    paired()
    assert "has everything" in said(capfd, "devices")
    with door.opened() as store:
        session = made(store, "the parser", [turn(1)])
        listing.change(store, session.id)
        count = len(store.checkpoint_ids(session.id))
    assert f"lacks {count} checkpoint" in said(capfd, "devices")
    (flow,) = told(capfd, "devices")["sync"]["flows"]
    assert (flow["device"], flow["linked"], flow["sent"]) == (device_text(DESKTOP.id), False, None), (
        "the phone has none"
    )


def test_a_device_that_its_peers_do_not_let_in_is_told_what_that_means(
    own: None, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    paired()
    peer = Peer(
        id=device_text(DESKTOP.id), name="desktop", role="full", linked=False, address="", seen_ms=5, ago_ms=5,
        trouble="The other device does not know this one.", refuses=True,
    )  # fmt: skip
    monkeypatch.setattr(peering, "peers_now", lambda: (peer,))
    words = "desktop does not let this device in: this one was put out there, or desktop has not heard yet"
    shown = said(capfd, "devices")
    assert words in shown and "hhd pair" in shown and "hhd devices refound" in shown
    around = Around(
        peers=(peer,),
        fixed=(Fixed(address="[fe80::1%2]:80", device="", name="", trouble="Nobody answers."),),
        listening=(),
        trouble="",
    )
    monkeypatch.setattr(peering, "around", lambda: around)
    shown = said(capfd, "peer", "list")
    assert words in shown and "[fe80::1%2]:80: none of your devices was found there. Nobody answers." in shown
    around = replace(around, peers=(replace(peer, linked=True, refuses=False),))
    assert "nobody was looked for there, since all of your devices are linked" in said(capfd, "peer", "list")
    monkeypatch.setattr(peering, "peers_now", lambda: (replace(peer, refuses=False),))
    assert "let this device in" not in said(capfd, "devices")
