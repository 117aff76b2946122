"""Two and three machines, their messages carried by hand: what is said, in how many bytes, and who is cut off."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

from hhd_protocol.ids import CheckpointId, DeviceId, Incarnation, ObjectName, SessionId, Sha256, StatementId
from hhd_protocol.limits import (
    SYNC_AGAIN_MS,
    SYNC_BARE_MAX,
    SYNC_BARE_SESSIONS_MAX,
    SYNC_IDS_MAX,
    SYNC_STILL_MS_MAX,
    SYNC_UNBACKED_MAX,
    SYNC_WANT_AGAIN_MAX,
    SYNC_WORDS_MAX,
)
from hhd_protocol.sync import Chains, Sync, encode_message, session_digest
from hhd_protocol.sync.events import (
    Acknowledged,
    Allowed,
    Answering,
    Arrived,
    Changed,
    Cut,
    Event,
    Heard,
    Hold,
    Lacking,
    Linked,
    Load,
    Loaded,
    Lost,
    Missing,
    Opened,
    Output,
    Piled,
    Send,
    SendContent,
    SendStatements,
    Take,
    Tick,
    Woke,
)
from hhd_protocol.sync.messages import (
    Absent,
    Acknowledge,
    Answered,
    Ask,
    Bare,
    Differ,
    Entry,
    Hello,
    Message,
    Statements,
    Want,
)
from hhd_protocol.sync.wants import NO_SESSION

HELLO = Hello(incarnation=Incarnation(bytes(16)), round=1, count=1, root=bytes(32))


def kinds(outputs: list[Output]) -> list[str]:
    return [type(one.message if isinstance(one, Send) else one).__name__ for one in outputs]


def test_what_lacks_its_content_is_said_before_each_hello_and_first_before_the_answer_to_one() -> None:
    laptop = Device(LAPTOP, {session(1): line(1, 2)})
    machine = laptop.machine
    assert kinds(machine.handle(Linked(peer=DESKTOP), 0)) == ["Hello"], "it is not known yet what the peer takes"
    assert kinds(machine.handle(Heard(peer=DESKTOP, message=HELLO), 0)) == ["SendBare", "Buckets"]
    assert kinds(machine.handle(Heard(peer=DESKTOP, message=replace(HELLO, round=2)), 0)) == ["Buckets"]
    assert kinds(machine.handle(Tick(), SYNC_AGAIN_MS)) == ["SendBare", "Hello"]
    machine.handle(Linked(peer=SERVER), 0)
    older = replace(HELLO, version=2)
    assert kinds(machine.handle(Heard(peer=SERVER, message=older), 0)) == ["Buckets"], "one that knows none gets none"
    assert kinds(machine.handle(Woke(), 1)) == ["SendBare", "Hello", "Hello"]


def test_what_a_peer_says_that_it_lacks_counts_until_it_acknowledges_it_or_names_it_no_more() -> None:
    laptop = Device(LAPTOP, {session(1): line(1, 3)})
    machine, ids = laptop.machine, [CheckpointId(one) for one in line(1, 3)]
    machine.handle(Linked(peer=DESKTOP), 0)
    peer = machine.peers[DESKTOP]

    def hears(*messages: Message) -> None:
        for message in messages:
            machine.handle(Heard(peer=DESKTOP, message=message), 0)

    hears(HELLO, Bare(session=session(1), checkpoints=tuple(ids)))
    assert not peer.is_known, "it has not answered: more may come"
    hears(Answered(round=1))
    assert peer.is_known and peer.lacks == {session(1): set(ids)}
    hears(Acknowledge(session=session(1), whole=(ids[1],)))
    assert peer.lacks == {session(1): {ids[0], ids[2]}}
    hears(Bare(session=session(1), checkpoints=(ids[0],)), replace(HELLO, round=2))
    assert peer.lacks == {session(1): {ids[0]}}
    hears(replace(HELLO, round=3))
    assert not peer.lacks, "it did not name it again"
    hears(Bare(session=session(2), checkpoints=(ids[0],)))
    assert not peer.lacks, "of what is not here nothing is kept"


def test_of_a_peer_that_says_more_than_is_kept_nothing_is_known_until_it_says_less() -> None:
    many = tuple(CheckpointId(name(f"many {at}")) for at in range(SYNC_IDS_MAX))
    laptop = Device(LAPTOP, {session(1): line(1, 3)})
    machine = laptop.machine
    machine.handle(Linked(peer=DESKTOP), 0)
    peer = machine.peers[DESKTOP]
    for bare in ([Bare(session=session(1), checkpoints=many)] * 8, [Bare(session=NO_SESSION, checkpoints=())]):
        for message in (HELLO, *bare, Answered(round=1)):
            machine.handle(Heard(peer=DESKTOP, message=message), 0)
        assert not peer.is_known and sum(map(len, peer.lacks.values())) <= SYNC_BARE_MAX
        for round in (2, 3):
            machine.handle(Heard(peer=DESKTOP, message=replace(HELLO, round=round)), 0)
        assert peer.is_known and not peer.lacks


def test_who_says_often_what_it_lacks_is_not_cut_off_and_who_says_so_without_end_is() -> None:
    laptop = Device(LAPTOP, {session(1): line(1, 3)})
    machine, bare = laptop.machine, Bare(session=session(1), checkpoints=(CheckpointId(line(1, 1).popitem()[0]),))
    machine.handle(Linked(peer=DESKTOP), 0)
    for round in range(1, 17):
        for _ in range(SYNC_BARE_SESSIONS_MAX):
            assert machine.handle(Heard(peer=DESKTOP, message=bare), 0) == []
        machine.handle(Heard(peer=DESKTOP, message=replace(HELLO, round=round)), 0)
    assert DESKTOP in machine.peers
    for _ in range(10 * SYNC_WORDS_MAX):
        if kinds(machine.handle(Heard(peer=DESKTOP, message=bare), 0)) == ["Cut"]:
            break
    assert DESKTOP not in machine.peers


LAPTOP, DESKTOP, SERVER = (DeviceId(sha256(name.encode()).digest()) for name in ("laptop", "desktop", "server"))


def name(text: str) -> StatementId:
    return StatementId(sha256(text.encode()).digest())


def session(number: int) -> SessionId:
    return SessionId(name(f"session {number}"))


History = dict[StatementId, StatementId | None]


def line(number: int, length: int) -> History:
    ids = [name(f"{number}/{at}") for at in range(length)]
    return {id: ids[at - 1] if at else None for at, id in enumerate(ids)}


class Device:
    """A machine with a disk of statements and nothing else."""

    def __init__(self, id: DeviceId, sessions: dict[SessionId, History]) -> None:
        self.id, self.sessions = id, {one: dict(after) for one, after in sessions.items()}
        self.machine = Sync(incarnation=Incarnation(id[:16]))
        self.done: list[Output] = []
        self.sent_bytes = 0
        self.statements_sent = 0
        self.machine.handle(Opened(digests={one: self.digest(one) for one in sessions}), 0)

    def digest(self, session: SessionId) -> bytes:
        return session_digest(Chains(self.sessions[session]).frontier(marked=False), [])

    def happens(self, event: Event, now_ms: int = 0) -> list[tuple[DeviceId, Message]]:
        """What it sends."""
        found: list[tuple[DeviceId, Message]] = []
        for output in self.machine.handle(event, now_ms):
            self.done.append(output)
            match output:
                case Load(session=one):
                    found += self.happens(Loaded(session=one, after=self.sessions[one]))
                case Send(peer=peer, message=message):
                    found.append((peer, message))
                case SendStatements(peer=peer, session=one, ids=ids):
                    entries = tuple(Entry(raw=id) for id in ids)
                    self.statements_sent += len(ids)
                    found.append((peer, Statements(session=one, entries=entries)))
                case _:
                    pass
        self.sent_bytes += sum(len(encode_message(message)) for _, message in found)
        return found

    def take(self, peer: DeviceId, message: Statements) -> list[tuple[DeviceId, Message]]:
        known = self.sessions.setdefault(message.session, {})
        given = [StatementId(entry.raw) for entry in message.entries]
        fresh = {id: ALL[id] for id in given if id not in known}
        known |= fresh
        return self.happens(
            Changed(
                session=message.session,
                digest=self.digest(message.session),
                fresh=fresh,
                source=peer,
                durable=tuple(given),
            )
        )

    def outputs(self, kind: type[Output]) -> list[Output]:
        return [one for one in self.done if isinstance(one, kind)]


ALL: History = {id: after for number in range(2100) for id, after in line(number, 12).items()}


def talk(*devices: Device, rounds_max: int = 10_000) -> None:
    """Link all with all and carry every message."""
    by_id = {one.id: one for one in devices}
    wires: list[tuple[DeviceId, DeviceId, Message]] = []
    for one in devices:
        for other in devices:
            if one is not other and other.id not in one.machine.peers:
                wires += [(one.id, to, message) for to, message in one.happens(Linked(peer=other.id))]
    carry(by_id, wires, rounds_max)


def carry(by_id: dict[DeviceId, Device], wires: list[tuple[DeviceId, DeviceId, Message]], most: int = 10_000) -> None:
    for _ in range(most):
        if not wires:
            return
        source, target, message = wires.pop(0)
        device = by_id[target]
        said = device.happens(Heard(peer=source, message=message))
        if isinstance(message, Statements):
            said += device.take(source, message)
        wires += [(target, to, one) for to, one in said]
    raise AssertionError("they talk for ever")


def test_two_thousand_unchanged_sessions_reconnect_in_one_message_each_way() -> None:
    sessions = {session(n): line(n, 12) for n in range(2000)}
    laptop, desktop = Device(LAPTOP, sessions), Device(DESKTOP, sessions)
    talk(laptop, desktop)
    assert laptop.sent_bytes + desktop.sent_bytes < 400
    assert laptop.outputs(Answering) and desktop.outputs(Answering)
    assert all(laptop.machine.is_level(DESKTOP, session(n)) for n in (0, 7, 1999))


def test_one_session_that_grew_is_found_among_two_thousand_in_few_bytes() -> None:
    sessions = {session(n): line(n, 12) for n in range(2000)}
    behind = {**sessions, session(5): line(5, 9)}
    laptop, desktop = Device(LAPTOP, sessions), Device(DESKTOP, behind)
    talk(laptop, desktop)
    assert desktop.sessions[session(5)] == line(5, 12)
    assert (laptop.statements_sent, desktop.statements_sent) == (3, 0)
    assert laptop.sent_bytes + desktop.sent_bytes < 12_000
    assert laptop.machine.is_level(DESKTOP, session(5)) and desktop.machine.is_level(LAPTOP, session(5))


def test_devices_that_each_have_something_new_end_with_the_same() -> None:
    one, other = {session(1): line(1, 12), session(2): line(2, 3)}, {session(2): line(2, 7), session(3): line(3, 2)}
    laptop, desktop, server = Device(LAPTOP, one), Device(DESKTOP, other), Device(SERVER, {})
    talk(laptop, desktop, server)
    assert laptop.sessions == desktop.sessions == server.sessions
    assert laptop.machine.digests == desktop.machine.digests == server.machine.digests


def test_what_is_new_goes_to_who_is_linked_without_a_question() -> None:
    laptop, desktop = Device(LAPTOP, {session(1): line(1, 3)}), Device(DESKTOP, {session(1): line(1, 3)})
    talk(laptop, desktop)
    fresh = name("1/3")
    laptop.sessions[session(1)][fresh] = name("1/2")
    said = laptop.happens(Changed(session=session(1), digest=laptop.digest(session(1)), fresh={fresh: name("1/2")}))
    assert [type(message) for _, message in said] == [Statements]
    assert not laptop.machine.is_level(DESKTOP, session(1))
    carry({LAPTOP: laptop, DESKTOP: desktop}, [(LAPTOP, to, message) for to, message in said])
    assert laptop.machine.is_level(DESKTOP, session(1))
    eager = [one for one in laptop.done if isinstance(one, SendStatements)]
    assert eager and eager[-1].eager


def test_what_others_wrote_while_a_peer_was_asking_for_something_else_reaches_it_before_the_next_round() -> None:
    """The peer knows already what it lacks and will ask for that alone; a hello in the middle of it is no new round."""
    before = {session(1): line(1, 3), session(2): line(2, 3)}
    laptop, desktop = Device(LAPTOP, {**before, session(1): line(1, 9)}), Device(DESKTOP, before)
    by_id, wires = {LAPTOP: laptop, DESKTOP: desktop}, list[tuple[DeviceId, DeviceId, Message]]()
    for one, other in ((laptop, desktop), (desktop, laptop)):
        wires += [(one.id, to, message) for to, message in one.happens(Linked(peer=other.id))]
    while not any(isinstance(message, Differ) and source == LAPTOP for source, _, message in wires):
        source, target, message = wires.pop(0)
        wires += [(target, to, said) for to, said in by_id[target].happens(Heard(peer=source, message=message))]
    laptop.sessions[session(2)] = line(2, 8)
    said = laptop.happens(Changed(session=session(2), digest=laptop.digest(session(2)), fresh={}))
    laptop.machine.peers[DESKTOP].asked_ms = -SYNC_AGAIN_MS
    said += laptop.happens(Tick())
    carry(by_id, wires + [(LAPTOP, to, message) for to, message in said])
    assert desktop.sessions == laptop.sessions
    assert all(laptop.machine.is_level(DESKTOP, session(n)) for n in (1, 2))


def test_what_a_peer_was_given_before_it_was_told_of_counts_as_there_once_it_says_that_it_has_the_same() -> None:
    one, other = session(1), session(2)
    before = {one: line(1, 3), other: line(2, 3)}
    laptop, desktop = Device(LAPTOP, before), Device(DESKTOP, before)
    talk(laptop, desktop)

    def looked(*sessions: SessionId) -> list[tuple[DeviceId, DeviceId, Message]]:
        """Others of the device wrote to these; what is new is not known, so the peer is to ask."""
        found = [
            said
            for one in sessions
            for said in laptop.happens(Changed(session=one, digest=laptop.digest(one), fresh={}))
        ]
        laptop.machine.peers[DESKTOP].asked_ms = -SYNC_AGAIN_MS
        return [(LAPTOP, *said) for said in (*found, *laptop.happens(Tick()))]

    laptop.sessions[one] = line(1, 4)
    wires = looked(one)
    laptop.sessions[one] = line(1, 6)  # And more, before the peer asks: it is given what is there then.
    carry({LAPTOP: laptop, DESKTOP: desktop}, wires)
    assert desktop.sessions == laptop.sessions
    wires = looked(one)
    assert not laptop.machine.is_level(DESKTOP, one)
    laptop.sessions[other] = line(2, 4)
    changed = Changed(session=other, digest=laptop.digest(other), fresh={})
    wires += [(LAPTOP, *said) for said in laptop.happens(changed)]
    laptop.done.clear()
    carry({LAPTOP: laptop, DESKTOP: desktop}, wires)
    assert laptop.machine.is_level(DESKTOP, one)
    assert Acknowledged(peer=DESKTOP, session=one) in laptop.done, "who waits for that hears of it"
    assert not laptop.machine.is_level(DESKTOP, other), "that came to be so after it was asked"
    carry({LAPTOP: laptop, DESKTOP: desktop}, looked())
    assert laptop.machine.is_level(DESKTOP, other) and desktop.sessions == laptop.sessions


def test_what_differed_in_a_round_that_another_took_the_place_of_is_not_held_against_a_peer() -> None:
    one, other = session(1), session(2)
    before = {one: line(1, 3), other: line(2, 3)}
    laptop, desktop = Device(LAPTOP, {one: line(1, 9), other: line(2, 9)}), Device(DESKTOP, before)
    by_id, wires = {LAPTOP: laptop, DESKTOP: desktop}, list[tuple[DeviceId, DeviceId, Message]]()
    for near, far in ((laptop, desktop), (desktop, laptop)):
        wires += [(near.id, *said) for said in near.happens(Linked(peer=far.id))]
    while not any(isinstance(message, Differ) and source == LAPTOP for source, _, message in wires):
        source, target, message = wires.pop(0)
        wires += [(target, *said) for said in by_id[target].happens(Heard(peer=source, message=message))]
    for id, after in list(line(1, 9).items())[3:]:  # A third device gives it that, and it asks anew.
        desktop.sessions[one][id] = after
    fresh = dict(list(line(1, 9).items())[3:])
    desktop.happens(Changed(session=one, digest=desktop.digest(one), fresh=fresh, source=SERVER))
    desktop.machine.peers[LAPTOP].asked_ms = -SYNC_AGAIN_MS
    carry(by_id, [*wires, *((DESKTOP, *said) for said in desktop.happens(Tick()))])
    assert desktop.sessions == laptop.sessions
    assert all(laptop.machine.is_level(DESKTOP, each) for each in (one, other))


def test_what_is_not_known_to_be_new_is_given_though_the_session_was_open_as_it_was_before() -> None:
    first = line(0, 5)
    laptop, desktop = Device(LAPTOP, {session(0): first}), Device(DESKTOP, {session(0): {}})
    talk(laptop, desktop)
    assert desktop.sessions[session(0)] == first, "it is open at the laptop from now on"
    laptop.sessions[session(0)] = line(0, 9)
    by_id = {LAPTOP: laptop, DESKTOP: desktop}
    changed = Changed(session=session(0), digest=laptop.digest(session(0)))
    carry(by_id, [(LAPTOP, *one) for one in laptop.happens(changed)])
    assert not laptop.machine.is_level(DESKTOP, session(0))
    carry(by_id, [(LAPTOP, *one) for one in laptop.happens(Tick(), SYNC_AGAIN_MS)])
    assert desktop.sessions[session(0)] == line(0, 9)


def test_content_is_asked_of_one_peer_and_of_another_where_it_is_absent() -> None:
    laptop = Device(LAPTOP, {})
    for peer in (DESKTOP, SERVER):
        laptop.happens(Linked(peer=peer))
    names = tuple(ObjectName(name(f"object {n}")) for n in range(6))
    said = laptop.happens(Missing(session=session(1), objects=names, source=DESKTOP))
    assert [(to, one.objects) for to, one in said if isinstance(one, Want)] == [(DESKTOP, names)]
    assert laptop.happens(Missing(session=session(1), objects=names, source=SERVER)) == []
    said = laptop.happens(Heard(peer=DESKTOP, message=Absent(objects=names[:2])))
    assert [(to, one.objects) for to, one in said if isinstance(one, Want)] == [(SERVER, names[:2])]
    for one in names[2:4]:
        laptop.happens(Arrived(name=one, source=DESKTOP))
    said = laptop.happens(Lost(peer=DESKTOP))
    assert [(to, one.objects) for to, one in said if isinstance(one, Want)] == [(SERVER, names[4:])]


def test_who_sends_nothing_for_a_minute_is_asked_no_more() -> None:
    laptop = Device(LAPTOP, {})
    for peer in (DESKTOP, SERVER):
        laptop.happens(Linked(peer=peer))
    wanted = ObjectName(name("object"))
    laptop.happens(Missing(session=session(1), objects=(wanted,), source=DESKTOP), 1000)
    assert laptop.machine.deadline() == 1000 + SYNC_STILL_MS_MAX
    said = laptop.happens(Tick(), 1000 + SYNC_STILL_MS_MAX)
    assert [to for to, one in said if isinstance(one, Want)] == [SERVER]


def test_peers_compare_again_after_five_minutes() -> None:
    laptop = Device(LAPTOP, {session(1): line(1, 3)})
    laptop.happens(Linked(peer=DESKTOP))
    assert laptop.happens(Tick(), SYNC_AGAIN_MS - 1) == []
    assert [type(one) for _, one in laptop.happens(Tick(), SYNC_AGAIN_MS)] == [Hello]


def test_who_wakes_asks_all_and_an_older_answer_does_not_count() -> None:
    laptop, desktop = Device(LAPTOP, {session(1): line(1, 3)}), Device(DESKTOP, {session(1): line(1, 3)})
    first = laptop.happens(Linked(peer=DESKTOP))
    desktop.happens(Linked(peer=LAPTOP))
    late = desktop.happens(Heard(peer=LAPTOP, message=first[0][1]))
    asked = laptop.happens(Woke())
    for _, message in late:
        laptop.happens(Heard(peer=DESKTOP, message=message))
    assert not laptop.outputs(Answering)
    for _, message in desktop.happens(Heard(peer=LAPTOP, message=asked[0][1])):
        laptop.happens(Heard(peer=DESKTOP, message=message))
    assert laptop.outputs(Answering)


def test_what_a_peer_is_not_to_have_is_neither_told_nor_given() -> None:
    sessions = {session(n): line(n, 3) for n in range(3)}
    laptop, desktop = Device(LAPTOP, sessions), Device(DESKTOP, {})
    left_out = frozenset({session(1)})
    wires = [(LAPTOP, to, one) for to, one in laptop.happens(Linked(peer=DESKTOP, left_out=left_out))]
    wires += [(DESKTOP, to, one) for to, one in desktop.happens(Linked(peer=LAPTOP))]
    carry({LAPTOP: laptop, DESKTOP: desktop}, wires)
    assert desktop.sessions.keys() == {session(0), session(2)}
    asked = Ask(session=session(1))
    assert laptop.happens(Heard(peer=DESKTOP, message=asked)) == []
    said = laptop.happens(Heard(peer=DESKTOP, message=Want(session=session(1), objects=(ObjectName(name("x")),))))
    assert [type(one) for _, one in said] == [Absent]
    said = laptop.happens(Allowed(peer=DESKTOP, left_out=frozenset()))
    carry({LAPTOP: laptop, DESKTOP: desktop}, [(LAPTOP, to, one) for to, one in said])
    said = desktop.happens(Woke())
    carry({LAPTOP: laptop, DESKTOP: desktop}, [(DESKTOP, to, one) for to, one in said])
    assert desktop.sessions.keys() == sessions.keys(), "and once it may have it, it gets it"


def test_who_may_have_a_session_from_now_on_does_not_count_as_having_it_before_it_says_so() -> None:
    sessions = {session(n): line(n, 3) for n in range(3)}
    laptop, desktop = Device(LAPTOP, sessions), Device(DESKTOP, {})
    left_out = frozenset({session(1)})
    wires = [(LAPTOP, to, one) for to, one in laptop.happens(Linked(peer=DESKTOP, left_out=left_out))]
    wires += [(DESKTOP, to, one) for to, one in desktop.happens(Linked(peer=LAPTOP))]
    carry({LAPTOP: laptop, DESKTOP: desktop}, wires)
    assert laptop.machine.is_level(DESKTOP, session(0)) and not laptop.machine.is_level(DESKTOP, session(1))
    said = laptop.happens(Allowed(peer=DESKTOP, left_out=frozenset()))
    assert laptop.machine.is_level(DESKTOP, session(0)) and not laptop.machine.is_level(DESKTOP, session(1))
    assert laptop.machine.behind(DESKTOP) == 1
    carry({LAPTOP: laptop, DESKTOP: desktop}, [(LAPTOP, to, one) for to, one in said])
    assert desktop.sessions.keys() == sessions.keys(), "it asks at once"


def test_who_takes_nothing_now_says_so_and_asks_again_later() -> None:
    laptop = Device(LAPTOP, {})
    laptop.happens(Linked(peer=DESKTOP))
    laptop.happens(Hold(why="the disk is full"))
    missing = Missing(session=session(1), objects=(ObjectName(name("object")),), source=DESKTOP)
    assert laptop.happens(missing) == []
    said = laptop.happens(Hold(why=""))
    assert {type(one) for _, one in said} >= {Want, Hello}


def _cut(device: Device) -> str | None:
    found = [one for one in device.done if isinstance(one, Cut)]
    return found[0].why if found else None


def test_who_asks_for_one_object_without_end_is_cut_off() -> None:
    laptop = Device(LAPTOP, {session(1): line(1, 3)})
    laptop.happens(Linked(peer=DESKTOP))
    want = Want(session=session(1), objects=(ObjectName(name("object")),))
    for _ in range(SYNC_WANT_AGAIN_MAX):
        laptop.happens(Heard(peer=DESKTOP, message=want))
    assert _cut(laptop) is None and laptop.outputs(SendContent)
    laptop.happens(Heard(peer=DESKTOP, message=want))
    assert "again and again" in (_cut(laptop) or "") and DESKTOP not in laptop.machine.peers


def test_who_asks_again_for_what_is_absent_whenever_it_hears_of_more_is_not_cut_off() -> None:
    laptop = Device(LAPTOP, {session(1): line(1, 3)})
    laptop.happens(Linked(peer=DESKTOP))
    gone = ObjectName(name("object"))
    for _ in range(3 * SYNC_WANT_AGAIN_MAX):
        laptop.happens(Heard(peer=DESKTOP, message=Want(session=session(1), objects=(gone,))))
        laptop.machine.has_not(DESKTOP, gone)
    assert _cut(laptop) is None and len(laptop.outputs(SendContent)) == 3 * SYNC_WANT_AGAIN_MAX


def test_who_asks_without_pause_is_cut_off_and_who_asks_in_time_is_not() -> None:
    for pause_ms, ends in ((0, True), (1000, False)):
        laptop = Device(LAPTOP, {session(1): line(1, 3)})
        laptop.happens(Linked(peer=DESKTOP))
        for number in range(15_000):
            laptop.machine.handle(Heard(peer=DESKTOP, message=Ask(session=session(1))), number * pause_ms)
        assert (DESKTOP not in laptop.machine.peers) == ends


def test_a_million_tiny_records_without_content_end_the_link() -> None:
    laptop = Device(LAPTOP, {})
    laptop.happens(Linked(peer=DESKTOP))
    flood = Statements(session=session(1), entries=tuple(Entry(raw=b"x") for _ in range(2048)))
    taken = 0
    for _ in range(500):
        laptop.done.clear()
        laptop.happens(Heard(peer=DESKTOP, message=flood))
        taken += 2048 * len(laptop.outputs(Take))
    assert taken <= SYNC_UNBACKED_MAX and DESKTOP not in laptop.machine.peers


def test_acknowledgements_come_out_with_who_gave_them() -> None:
    laptop, desktop = Device(LAPTOP, {session(1): line(1, 3)}), Device(DESKTOP, {})
    talk(laptop, desktop)
    said = [one for one in laptop.done if isinstance(one, Acknowledged) and one.session is not None]
    assert said and set(said[0].statements) == set(line(1, 3)) and said[0].peer == DESKTOP
    assert CheckpointId(name("1/0")) not in said[0].whole


def test_nobody_says_that_it_answered_before_all_was_sent() -> None:
    sessions = {session(n): line(n, 5) for n in range(40)}
    laptop, desktop = Device(LAPTOP, sessions), Device(DESKTOP, {})
    order: list[type[Message]] = []
    wires = [(DESKTOP, to, one) for to, one in desktop.happens(Linked(peer=LAPTOP))]
    laptop.happens(Linked(peer=DESKTOP))
    while wires:
        source, target, message = wires.pop(0)
        device = laptop if target == LAPTOP else desktop
        if target == DESKTOP:
            order.append(type(message))
        said = device.happens(Heard(peer=source, message=message))
        if isinstance(message, Statements):
            device.take(source, message)
        wires += [(target, to, one) for to, one in said]
    assert order.count(Statements) == 40 and order.count(Answered) == 1
    assert order[-1] is Answered


def test_what_was_asked_over_a_link_that_another_replaces_is_asked_again_over_that() -> None:
    laptop = Device(LAPTOP, {})
    laptop.happens(Linked(peer=DESKTOP))
    wanted = ObjectName(name("object"))
    laptop.happens(Missing(session=session(1), objects=(wanted,), source=DESKTOP))
    assert laptop.happens(Missing(session=session(1), objects=(wanted,), source=DESKTOP)) == [], "it is under way"
    said = laptop.happens(Linked(peer=DESKTOP))
    assert [one.objects for _, one in said if isinstance(one, Want)] == [(wanted,)]


def test_who_only_stores_is_level_once_it_has_all_that_there_is_and_until_something_changes() -> None:
    def pile(*texts: str) -> dict[bytes, int]:
        return {name(text): 0 for text in texts}

    laptop, server = Device(LAPTOP, {session(1): line(1, 2)}), Device(SERVER, {})
    by_id = {LAPTOP: laptop, SERVER: server}

    def happen(device: Device, event: Event) -> None:
        carry(by_id, [(device.id, to, message) for to, message in device.happens(event)])

    happen(laptop, Piled(pile=pile("a")))
    for one, other in ((laptop, SERVER), (server, LAPTOP)):
        happen(one, Linked(peer=other, sealed=True))
    assert server.outputs(Lacking) and not laptop.machine.is_level(SERVER, session(1)), "it was told a name"
    happen(server, Piled(pile=pile("a")))
    assert laptop.machine.is_level(SERVER, session(1))
    digest = laptop.digest(session(1))
    happen(laptop, Changed(session=session(1), digest=digest, fresh={name("new"): None}))
    assert not laptop.machine.is_level(SERVER, session(1)), "nobody looked what there is of that for it"
    happen(laptop, Piled(pile=pile("a", "b")))
    assert not laptop.machine.is_level(SERVER, session(1))
    happen(server, Piled(pile=pile("a", "b")))
    assert laptop.machine.is_level(SERVER, session(1))


def test_a_letter_is_asked_of_who_only_stores_and_of_nobody_else() -> None:
    laptop = Device(LAPTOP, {})
    for peer in (DESKTOP, SERVER):
        laptop.happens(Linked(peer=peer, sealed=peer == SERVER))
    letter = Sha256(name("letter"))
    said = laptop.happens(Missing(session=NO_SESSION, modules=(letter,), source=SERVER), 1000)
    assert [(to, one.modules) for to, one in said if isinstance(one, Want)] == [(SERVER, (letter,))]
    said = laptop.happens(Tick(), 1000 + SYNC_STILL_MS_MAX)
    assert not [one for _, one in said if isinstance(one, Want)], "who reads everything is told all of it as statements"
    hello = Hello(
        incarnation=Incarnation(SERVER[:16]),
        round=1,
        count=0,
        root=laptop.machine._here.root_for(laptop.machine.peers[SERVER]),
        holding="",
    )
    said = laptop.happens(Heard(peer=SERVER, message=hello), 1000 + SYNC_STILL_MS_MAX)
    assert [to for to, one in said if isinstance(one, Want)] == [SERVER], "it is there"


def test_that_a_name_is_no_letter_does_not_mean_that_the_object_of_that_name_is_not_there() -> None:
    """A letter that was read names what was asked for as a letter, before all of that was answered."""
    laptop = Device(LAPTOP, {})
    laptop.happens(Linked(peer=SERVER, sealed=True))
    letter, other = Sha256(name("letter")), name("an object")
    laptop.happens(Missing(session=NO_SESSION, modules=(letter, Sha256(other)), source=SERVER))
    laptop.happens(Arrived(name=letter, source=SERVER))
    said = laptop.happens(Missing(session=session(1), objects=(ObjectName(other),), source=SERVER))
    assert [(to, one.objects) for to, one in said if isinstance(one, Want)] == [(SERVER, (ObjectName(other),))]
    laptop.happens(Heard(peer=SERVER, message=Absent(modules=(Sha256(other),))))
    assert laptop.machine.wants.asked(other) == SERVER, "it is still to come"
    laptop.happens(Heard(peer=SERVER, message=Absent(objects=(ObjectName(other),))))
    assert laptop.machine.wants.asked(other) is None


def test_who_only_stores_may_have_more_than_there_is_here_and_still_hears_of_what_is_new_at_once() -> None:
    """What was removed, or came from who is gone, stays with it."""
    laptop, server = Device(LAPTOP, {session(1): line(1, 2)}), Device(SERVER, {})
    by_id = {LAPTOP: laptop, SERVER: server}

    def happen(device: Device, event: Event) -> None:
        carry(by_id, [(device.id, to, message) for to, message in device.happens(event)])

    happen(laptop, Piled(pile={name("a"): 0}))
    happen(server, Piled(pile={name("a"): 0, name("gone"): 0}))
    for one, other in ((laptop, SERVER), (server, LAPTOP)):
        happen(one, Linked(peer=other, sealed=True))
    assert laptop.machine.is_level(SERVER, session(1)) and server.outputs(Answering)
    assert Acknowledged(peer=SERVER, session=None) in laptop.done
    happen(laptop, Piled(pile={name("a"): 0, name("b"): 0}))
    assert [one.names for one in server.outputs(Lacking)] == [(name("b"),)], "it asked in turn"  # type: ignore[union-attr]
    assert not laptop.machine.is_level(SERVER, session(1))
    happen(server, Piled(pile={name("a"): 0, name("b"): 0, name("gone"): 0}))
    assert laptop.machine.is_level(SERVER, session(1))


def test_a_device_of_another_version_is_spoken_with_where_both_know_one_and_what_it_knows_is_kept() -> None:
    peer = DeviceId(name("peer"))
    for version in (0, 1, 2, 3):
        device = Device(DeviceId(name("here")), {})
        device.happens(Linked(peer=peer))
        assert device.machine.peers[peer].version == 0, "it said nothing yet"
        hello = Hello(version=version, incarnation=Incarnation(bytes(16)), round=1, count=1, root=bytes(32))
        device.happens(Heard(peer=peer, message=hello))
        assert bool(device.outputs(Cut)) is (version == 0)
        assert version == 0 or device.machine.peers[peer].version == version
