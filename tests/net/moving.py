"""Many sessions of two devices on their way at once, between real daemons: moved, watched stage by stage, struck.

A session answers each word with a few commands and a sentence. A command says its number in a file of the session's
that lies outside of all folders (`Fleet.ran`), so whatever runs twice, on whichever device, shows there. What can
strike them: `faults.py`.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.e2e.lab import call, says, script, text
from tests.net import halting
from tests.net import lab as laboratory
from tests.net.lab import Host, Net
from tests.net.paired import SECONDS, at, linked, pair, until

from hhd.base.errors import UserError
from hhd.base.release import RELEASE
from hhd.control import address, client
from hhd.identity.key import Identity
from hhd.node import listed, store
from hhd.node.answers.handoff import Moved
from hhd.node.answers.transferred import Transferred
from hhd.node.asking import Asking
from hhd.node.doors import Doors
from hhd.node.handoff import journal as handoff_journal
from hhd.node.listed import Listed
from hhd.node.remote import Remote
from hhd.node.runs import Runs
from hhd.store.store import Store
from hhd_protocol.handoff import Side, Stage
from hhd_protocol.ids import SessionId, TransferId

COMMANDS = 2
"""Of each word that is said to a session."""
TURNS = 200
PAUSE = 0.1
"""Between two looks into the stores: daemons at work are not to be held up by who watches."""


class NobodyListens(AssertionError):
    """No daemon is there to be asked."""


@dataclass(eq=False)
class Move:
    """One wish that a session goes to the other device; `transfer`: "" until the daemon has taken it up."""

    session: SessionId
    source: Host
    target: Host
    before: str
    """The last handoff of this session from here before."""
    transfer: str = ""
    steps: list[Moved] = field(default_factory=list)
    error: str = ""
    terminal: socket.socket | None = None

    def leave(self) -> None:
        """Its person closes the terminal."""
        assert self.terminal is not None
        self.terminal.shutdown(socket.SHUT_RDWR)

    @property
    def heard(self) -> bool:
        """Whether the daemon has said something of it, or cannot any more."""
        return bool(self.steps or self.error)


@dataclass(frozen=True, kw_only=True)
class Standing:
    """What a device knows of a session: its owner, whether it may go on here, its heads, the chosen one, its token."""

    owner: bytes | None
    may: bool
    heads: int
    main: bytes | None
    token: int


NOT_THERE = Standing(owner=None, may=False, heads=0, main=None, token=0)


class Notices:
    """The stages that the daemon of a host has noted in its log, as they come."""

    def __init__(self, host: Host) -> None:
        self._path, self._file, self._part = host.folder / "data/logs/daemon.jsonl", None, b""
        self.stages: dict[str, Stage] = {}
        """The last of each handoff, by side and id: `source 0a1b...`."""
        self.newest: dict[str, str] = {}
        """The last handoff of each session from here."""

    def look(self) -> None:
        """Take in what was noted since."""
        while True:
            if self._file is None:
                if not self._path.exists():
                    return
                self._file = open(self._path, "rb")  # noqa: SIM115  It stays open from look to look.
            fresh = self._file.read()
            *lines, self._part = (self._part + fresh).split(b"\n")
            for line in lines:
                self._take(line)
            named, opened = os.stat(self._path), os.fstat(self._file.fileno())
            if named.st_ino == opened.st_ino:
                return
            self.close()  # It was full, and a new one was begun.

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _take(self, line: bytes) -> None:
        if b'"event":"handoff",' in line:
            said = json.loads(line)
            side, stage = said["state"].split(".")
            self.stages[f"{side} {said['transfer']}"] = Stage(stage)
            if side == Side.SOURCE.value:
                self.newest[said["session"]] = said["transfer"]


class Fleet:
    """`count` sessions, half of them begun on each of two devices, whose daemons can be struck."""

    def __init__(self, net: Net, folder: Path) -> None:
        self.net, self.witness = net, folder / "witness"
        self.witness.mkdir()
        self.hosts = tuple(net.hosts.values())
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}
        self.notices = {host.name: Notices(host) for host in self.hosts}
        self.sessions: list[SessionId] = []
        for host in self.hosts:
            self._configure(host)
            laboratory.warm(host)
        pair(net, *net.hosts)

    def _configure(self, host: Host) -> None:
        replies = []
        for turn in range(TURNS):
            numbers = range(turn * COMMANDS, (turn + 1) * COMMANDS)
            replies += [says(call("bash", command=f"sh step {number}")) for number in numbers]
            replies.append(says(text(f"Turn {turn}.")))
        model = script(host.folder / "script.jsonl", replies)
        (host.folder / "config").mkdir()
        config = host.folder / "config" / "config.toml"
        config.write_text(
            f'[model]\nname = "{model}"\ncalls_max = 100000\n[policy]\nallow = ["bash"]\n'
            f'[policy.sandbox]\nwritable = ["{self.witness}"]\n'
        )
        config.chmod(0o600)

    # Daemons and the line

    def other(self, host: Host) -> Host:
        return self.hosts[1 - host.index]

    def ready(self) -> None:
        """Both daemons are up and linked, and none is to stop."""
        for host in self.hosts:
            halting.called_off(host.folder / "data")
            if host.name not in self.daemons:
                self.daemons[host.name] = halting.up(host)
        until(lambda: all(self.other(host).name in linked(host) for host in self.hosts), SECONDS)

    def kill(self, *hosts: Host, alone: bool = False) -> None:
        for host in hosts:
            halting.kill(self.daemons.pop(host.name), alone=alone)

    def up(self, *hosts: Host) -> None:
        for host in hosts:
            self.daemons[host.name] = halting.up(host)

    def stop(self) -> None:
        """Both daemons stop where they are."""
        for daemon in self.daemons.values():
            os.kill(daemon.pid, signal.SIGSTOP)

    def goes_on(self) -> None:
        """Whoever stopped goes on."""
        for daemon in self.daemons.values():
            os.kill(daemon.pid, signal.SIGCONT)

    def forget_connections(self, *hosts: Host) -> None:
        """The systems of these hosts end all connections: while the line is cut, the other ends do not hear of it."""
        for host in hosts:
            host.run("ss", "-K", "-t", "state", "connected")

    def bytes_sent(self, host: Host) -> int:
        """How many bytes its interface has sent."""
        lines = Path(f"/proc/{self.daemons[host.name].pid}/net/dev").read_text().splitlines()
        (line,) = [one for one in lines if one.strip().startswith("lan0:")]
        return int(line.split()[9])

    # Sessions

    @contextlib.contextmanager
    def connected(self, host: Host) -> Iterator[client.Connection]:
        path = address.said(host.folder / "data")
        link = None if path is None else client.connect(path, hhd=RELEASE)
        if link is None:
            raise NobodyListens(f"no daemon listens on {host.name}: {host.log()}")
        with link:
            yield link

    def begin(self, count: int) -> None:
        """Begin so many sessions; they have done their first commands when this returns."""
        for number in range(count):
            host = self.hosts[number % 2]
            folder = host.folder / f"session{number}"
            folder.mkdir()
            (folder / "step").write_text(
                f"echo $1 >> {self.witness}/{number}\necho $1 >> ran\n"
                f"while [ -e {self.witness}/hold-{number} ]; do sleep 0.3; done\n"
            )
            with self.connected(host) as link:
                begun = Runs(link).begin("go", folder=folder, environment={"PATH": os.environ["PATH"]})
            self.sessions.append(SessionId(bytes.fromhex(begun.session)))
        until(lambda: all(len(self.ran(session)) == COMMANDS for session in self.sessions), SECONDS)

    def ran(self, session: SessionId) -> list[int]:
        """The numbers of the commands of a session that ran, anywhere, in that order."""
        file = self.witness / str(self.sessions.index(session))
        return [int(line) for line in file.read_text().split()] if file.exists() else []

    def listed(self, host: Host) -> dict[SessionId, Listed]:
        with self.connected(host) as link:
            return {one.id: one for one in listed.asked(link, "", with_archived=False, exact=False).sessions}

    def transcript(self, host: Host, session: SessionId) -> bytes:
        with self.connected(host) as link:
            return b"".join(Remote(link, store_here).transcript(session.hex()))

    def hold(self, *sessions: SessionId) -> None:
        """Let the commands of these sessions, and of no others, go on until they are let go."""
        for file in self.witness.glob("hold-*"):
            file.unlink()
        for session in sessions:
            (self.witness / f"hold-{self.sessions.index(session)}").touch()

    def say(self, host: Host, session: SessionId) -> None:
        with self.connected(host) as link:
            Runs(link).say(session.hex(), "next")

    def settle(self, host: Host, session: SessionId) -> None:
        """A person says what became of a command that was cut off, by what it left, and lets the session go on."""
        number = len(results(self.transcript(host, session)))
        how = ("ran", "") if number in self.ran(session) else ("did-not-run", "")
        with self.connected(host) as link:
            Runs(link).go_on(session.hex(), settle=how)

    def standings(self, host: Host, some: Iterable[SessionId]) -> dict[SessionId, Standing]:
        with at(host) as me, store.opened(me) as opened, opened.snapshot():
            there = set(opened.sessions())
            return {one: standing(opened, me, one) if one in there else NOT_THERE for one in some}

    def agreed(self, some: Iterable[SessionId]) -> dict[SessionId, tuple[Host, Standing]]:
        """Who may go on with each of these sessions, once both devices know the same of it; at no time may both."""
        left, agreed = set(some), dict[SessionId, tuple[Host, Standing]]()

        def came() -> bool:
            found = [self.standings(host, left) for host in self.hosts]
            for session in set(left):
                ours = [one[session] for one in found]
                assert sum(one.may for one in ours) < 2, f"both may go on with {session.hex()}"
                assert all(one.heads < 2 for one in ours), f"{session.hex()} has more than one head: {ours}"
                if len({replace(one, may=False) for one in ours}) == 1 and any(one.may for one in ours):
                    ((host, one),) = [(host, one) for host, one in zip(self.hosts, ours, strict=True) if one.may]
                    agreed[session] = host, one
                    left.discard(session)
            return not left

        try:
            until(came, SECONDS, pause=PAUSE)
        except AssertionError as error:
            told = [{one.hex(): how for one, how in self.standings(host, left).items()} for host in self.hosts]
            raise AssertionError(f"{error}: {told}") from error
        return agreed

    # Handoffs

    def wish(self, session: SessionId, source: Host) -> Move:
        """Let a session go to the other device: asked at its control socket, and followed as a terminal does."""
        before = self.notices[source.name].newest.get(session.hex(), "")
        move = Move(session, source, self.other(source), before)
        threading.Thread(target=self._follow, args=(move,), daemon=True).start()
        return move

    def _follow(self, move: Move) -> None:
        try:
            with self.connected(move.source) as link, socket.socket(fileno=os.dup(link.fileno())) as move.terminal:
                given = {"name": move.session.hex(), "to": move.target.name}
                for step in Asking(link).stream("transfer", Moved, **given):
                    move.steps.append(step)
        except (UserError, NobodyListens) as error:  # The latter: it was struck before it could be asked.
            move.error = str(error)

    def look(self) -> None:
        """Take in what the daemons have noted."""
        for noted in self.notices.values():
            noted.look()

    def stages(self, moves: list[Move]) -> dict[Move, tuple[Stage, Stage]]:
        """How far each came, as its source and its target have noted it."""
        self.look()
        for move in moves:
            newest = self.notices[move.source.name].newest.get(move.session.hex(), "")
            move.transfer = newest if newest != move.before else ""
        return {
            move: (
                self.notices[move.source.name].stages.get(f"source {move.transfer}", Stage.NONE),
                self.notices[move.target.name].stages.get(f"target {move.transfer}", Stage.NONE),
            )
            for move in moves
        }

    def unfinished(self) -> list[str]:
        """What the journals of both hold that is not over, in words."""
        found = []
        for host in self.hosts:
            with at(host) as me, store.opened(me) as opened:
                found += [
                    f"{host.name}: {one.session.hex()[:6]} {one.side.value} {one.stage.value}"
                    for one in handoff_journal.unfinished(opened)
                ]
        return found

    def stage(self, host: Host, transfer: str) -> Stage:
        """How far a handoff came, by the journal of a host."""
        with at(host) as me, store.opened(me) as opened:
            record = handoff_journal.last(opened, TransferId(bytes.fromhex(transfer)))
        return Stage.NONE if record is None else record.stage

    def transfers(self, host: Host) -> dict[str, Transferred]:
        with self.connected(host) as link:
            return {one.transfer: one for one in Remote(link, store_here).transfers()}

    def rest(self, moves: list[Move]) -> None:
        """Wait until each of these wishes was heard, and no handoff is under way at either."""
        until(lambda: all(move.heard for move in moves), SECONDS)
        try:
            until(lambda: not self.unfinished(), SECONDS, pause=PAUSE)
        except AssertionError as error:
            links = {host.name: linked(host) for host in self.hosts}
            raise AssertionError(f"{self.unfinished()}, {links}") from error


def standing(opened: Store, me: Identity, session: SessionId) -> Standing:
    doors = Doors(opened, me, session)
    view = doors.part.known.view
    return Standing(
        owner=view.owner,
        may=doors.may_append() is None,
        heads=len(view.heads),
        main=view.main,
        token=0 if view.token is None else view.token.number,
    )


def results(transcript: bytes) -> list[str]:
    """The commands of a transcript that have a result, in order."""
    found, asked = [], ""
    for line in transcript.splitlines():
        said = json.loads(line)
        if said["event"] == "call":
            asked = said["input"]["command"]
        elif said["event"] == "result":
            found.append(asked)
    return found


def store_here() -> contextlib.AbstractContextManager[object]:
    raise AssertionError("all is asked of the daemon")
