"""Asks the daemon any verb by its name; what comes back is read with the type that is wanted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from hhd.base.errors import UserError
from hhd.control.client import Connection
from hhd_protocol import mapping
from hhd_protocol.codec import Value
from hhd_protocol.errors import FormatError

if TYPE_CHECKING:
    from hhd_protocol.live import Event

T = TypeVar("T")


class Asking:
    """Verbs asked over `connection`; arguments are plain values, paths absolute ones or texts.

    All raise the UserError that the daemon said; RefusedError where one of the two is too old.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def ask(self, verb: str, wanted: type[T], *, changes: bool = True, **given: object) -> T:
        """Return the answer; `changes`: unless it was answered, something may have been done."""
        found: T = self.read(wanted, self.connection.ask(verb, values(given), changes=changes))
        return found

    def stream(self, verb: str, wanted: type[T], **given: object) -> Iterator[T]:
        """Yield what comes, one by one. Who leaves it closes the connection, or asks for something else on it."""
        for event in self.connection.stream(verb, values(given)):
            yield self.read(wanted, event)

    def steps(self, verb: str, wanted: type[T], **given: object) -> Iterator[T]:
        """The same of something that is being done: where the daemon ends in between, it may have been."""
        for event in self.connection.stream(verb, values(given), changes=True):
            yield self.read(wanted, event)

    def live(self, verb: str, **given: object) -> Iterator[Event]:
        """Yield the events of a running session."""
        for event in self.connection.stream(verb, values(given)):
            yield self.event(event)

    def event(self, value: Value) -> Event:
        """Return `value` as an event of a running session; raises as `read` does."""
        from hhd_protocol import live  # Long to import, and few ask for it.

        try:
            return live.decoded(value)
        except FormatError as error:
            raise self.odd(str(error)) from error

    def read(self, wanted: Any, value: Value) -> Any:
        """Return `value` as the `wanted` type; raises UserError, and ends the connection, where it is none."""
        try:
            return mapping.from_value(wanted, value)
        except FormatError as error:
            raise self.odd(str(error)) from error

    def odd(self, why: str) -> UserError:
        """The error for something that should not have come; the connection is closed."""
        self.connection.close()
        return UserError(
            f"The daemon's answer is none that this hhd knows ({why}); hhd down, and then hhd up, starts a new one."
        )


def values(given: dict[str, Any]) -> dict[Value, Value]:
    """Return arguments as the values that stand for them."""
    from pathlib import Path

    return {
        name: mapping.to_value(str(one.absolute()) if isinstance(one, Path) else one) for name, one in given.items()
    }
