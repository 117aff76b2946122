"""All that is looked at, in the order in which a person reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from hhd.base.errors import UserError
from hhd.control.client import Connection
from hhd.node.doctor import around, kept, network, running
from hhd.node.doctor.finding import Finding, broken

Link = Callable[[], Connection | None]
Look = Callable[[Link], Finding]


def _plain(look: Callable[[], Finding]) -> Look:
    return lambda _: look()


LOOKS: Mapping[str, Look] = {
    "configuration": _plain(kept.configuration),
    "key storage": _plain(kept.key),
    "disk": _plain(kept.disk),
    "store": _plain(kept.health_of_store),
    "log": _plain(kept.log_of_daemon),
    "clock": _plain(kept.clock),
    "daemon": running.daemon,
    "clocks": running.clocks,
    "service": running.service,
    "linger": running.linger,
    "sandbox": _plain(around.sandbox),
    "socket": _plain(around.separation),
    "git": _plain(around.git),
    "sleep": _plain(around.sleep),
    "multicast": _plain(network.multicast),
    "port": _plain(network.port),
    "firewall": _plain(network.firewall),
    "model": _plain(around.model),
    "clients": _plain(around.clients),
}
"""By the name that is shown and that scripts know."""


def findings(link: Link) -> Iterator[tuple[str, Finding]]:
    """Yield what each look finds; one that fails is a finding itself, and the next goes on."""
    for name, look in LOOKS.items():
        try:
            yield name, look(link)
        except UserError as error:
            yield name, broken(str(error), "Mend that first.")
        except OSError as error:
            place = f" ({error.filename})" if error.filename else ""
            yield name, broken(f"The system said: {error.strerror or error}{place}.", "Mend that first.")
