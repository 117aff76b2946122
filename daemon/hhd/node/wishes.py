"""What a person wishes of sessions and calls them: titles, picked heads, archived or not; shared by their devices.

Nothing here has authority. Where two devices said different things without knowing of each other, the person is told,
and saying it again is the answer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from hhd.node import registry as door
from hhd.node.answers.wished import Wished
from hhd.node.devices import Devices
from hhd.node.naming import ID_SHOWN
from hhd.registry.questions import Question
from hhd.registry.registers import identifier
from hhd.registry.registry import Registry, Told
from hhd.store.store import Store
from hhd_protocol.ids import CheckpointId, SessionId


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """The wishes kept with `store`; `devices` say who said what."""

    store: Store
    devices: Devices

    def rename(self, session: SessionId, title: str | None) -> Wished:
        """Give a session a title, or take it away; raises UsageError if it is empty, too long or no text."""
        return self._wished(session, self._registry.rename(session, title))

    def archive(self, session: SessionId, archived: bool) -> Wished:
        """Hide a session from lists, or show it again."""
        return self._wished(session, self._registry.archive(session, archived))

    def pick(self, session: SessionId, head: CheckpointId | None) -> Wished:
        """Say which head is preferred, or none."""
        return self._wished(session, self._registry.pick(session, head))

    def name_head(self, session: SessionId, head: CheckpointId, name: str | None) -> Wished:
        """Give one head a name, or take it away; raises UsageError as `rename` does."""
        return replace(self._wished(session, self._registry.name_head(session, head, name)), head=head.hex())

    def archive_head(self, session: SessionId, head: CheckpointId, archived: bool) -> Wished:
        """Leave one head out when they are listed, or show it again."""
        return replace(self._wished(session, self._registry.archive_head(session, head, archived)), head=head.hex())

    @property
    def _registry(self) -> Registry:
        return door.opened(self.store)

    def _wished(self, session: SessionId, told: Told) -> Wished:
        return Wished(
            session=session.hex(),
            before=told.before,
            after=told.after,
            questions=tuple(self._sentence(one) for one in told.questions),
        )

    def _sentence(self, question: Question) -> str:
        said = ", ".join(f"'{_claimed(question.what, one.text)}' on {self._by(one.device)}" for one in question.claims)
        return f"Two devices gave a different {question.what} without knowing of each other: {said}; say it again."

    def _by(self, begin: bytes) -> str:
        for device, name in self.devices.all():
            if device.startswith(begin):
                return name or self.devices.shown(device).id
        return begin.hex()


def _claimed(what: str, text: str) -> str:
    """What was said, as a person reads it: of heads the begin of the id."""
    id = identifier(text) if what == "picked" else None
    return text if id is None else id.hex()[:ID_SHOWN]
