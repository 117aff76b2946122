"""What can strike two devices whose sessions are on their way, by its name: a kill, a cut, and what comes of both.

Both daemons stand still when one of `FAULTS` is called (`Fleet.stop`). It returns once it is healed: both are up, and
nothing is cut.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from tests.net.lab import Host
from tests.net.moving import Fleet
from tests.net.paired import SECONDS, linked, until

FAULTS: dict[str, Callable[[Fleet, random.Random], None]] = {}
"""What can happen to two devices, by its name; each returns once it is healed."""


def _fault(act: Callable[[Fleet, random.Random], None]) -> Callable[[Fleet, random.Random], None]:
    FAULTS[act.__name__.strip("_").replace("_", " ")] = act
    return act


def _killed(fleet: Fleet, dice: random.Random, *hosts: Host) -> None:
    fleet.kill(*hosts, alone=dice.random() < 0.3)
    fleet.goes_on()
    fleet.up(*hosts)


@_fault
def laptop_killed(fleet: Fleet, dice: random.Random) -> None:
    _killed(fleet, dice, fleet.hosts[0])


@_fault
def desktop_killed(fleet: Fleet, dice: random.Random) -> None:
    _killed(fleet, dice, fleet.hosts[1])


@_fault
def both_killed(fleet: Fleet, dice: random.Random) -> None:
    _killed(fleet, dice, *fleet.hosts)


@_fault
def line_cut_for_a_while(fleet: Fleet, dice: random.Random) -> None:
    """Connections outlive it: what was lost is sent again by the systems. How long it takes is part of the fault."""
    fleet.net.cut("laptop")
    fleet.goes_on()
    time.sleep(0.1 + dice.random())
    fleet.net.mend("laptop")


@_fault
def connections_lost(fleet: Fleet, dice: random.Random) -> None:
    """What was sent and did not arrive never does."""
    fleet.net.cut("laptop")
    fleet.forget_connections(*fleet.hosts)
    fleet.goes_on()
    until(lambda: not any(linked(host) for host in fleet.hosts), SECONDS)
    fleet.net.mend("laptop")


@_fault
def half_open(fleet: Fleet, dice: random.Random) -> None:
    """One end knows that the connections are gone, the other does not."""
    knows = dice.choice(fleet.hosts)
    fleet.net.cut("laptop")
    fleet.forget_connections(knows)
    fleet.goes_on()
    until(lambda: not linked(knows), SECONDS)
    fleet.net.mend("laptop")


@_fault
def cut_and_killed(fleet: Fleet, dice: random.Random) -> None:
    """Nobody hears that a daemon died, and it is up again before the line is whole."""
    gone = dice.choice(fleet.hosts)
    fleet.net.cut("laptop")
    _killed(fleet, dice, gone)
    fleet.net.mend("laptop")
