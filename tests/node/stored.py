"""A device with a store, for tests that drive sessions in it without a process of its own."""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.node.driven import Person

from hhd.base.config import load
from hhd.effects.confine import Workspace
from hhd.effects.executor import Settlement
from hhd.effects.sandbox import Sandbox
from hhd.identity.key import Identity
from hhd.node import programs, sessions
from hhd.node.ended import Ended
from hhd.node.run import Here, Run
from hhd.node.sessions import StoredSession
from hhd.store.store import Limits, Store
from hhd_protocol.crypto import device_id, public_key
from hhd_protocol.ids import SessionId


def identity(seed: bytes) -> Identity:
    public = public_key(seed)
    return Identity(seed=seed, public=public, id=device_id(public))


@dataclass
class Laptop:
    """A store, its device, a folder to work in, and a script for the model."""

    folder: Path
    script: list[Any]
    rules: Mapping[str, object] = field(default_factory=lambda: {"allow": ["bash", "write", "edit"]})
    limits: Limits = field(default_factory=lambda: Limits(free_bytes_min=0))

    def __post_init__(self) -> None:
        self.me = identity(os.urandom(32))
        self.repo = self.folder / "repo"
        self.repo.mkdir(parents=True, exist_ok=True)
        self.store = Store.open(self.folder / "store", seed=self.me.seed, limits=self.limits)

    def create(self, prompt: str = "go", **more: str) -> SessionId:
        args = programs.encode_args({"prompt": prompt, **more})
        return sessions.create(self.store, self.me, program="agent", args=args)

    def here(self) -> Here:
        """What the device brings to a session."""
        (self.folder / "s.jsonl").write_text("".join(json.dumps(reply) + "\n" for reply in self.script))
        config = load()
        object.__setattr__(config, "policy", self.rules)
        return Here(
            config=config,
            sandbox=Sandbox(program=None, reason="not under test", network=True, hidden=()),
            model=f"scripted:{self.folder / 's.jsonl'}",
            today=lambda: datetime.date(2026, 11, 29),
        )

    @contextmanager
    def run(
        self, session: SessionId, person: Person | None = None, settlement: Settlement | None = None
    ) -> Iterator[Run]:
        here = self.here()
        with Workspace(self.repo) as workspace, StoredSession(self.store, self.me, session) as one:
            face = person or Person()
            yield Run(session=one, here=here, workspace=workspace, face=face, settlement=settlement)

    def go(self, session: SessionId, person: Person | None = None, settlement: Settlement | None = None) -> Ended:
        with self.run(session, person, settlement) as run:
            return run.go()

    def transcript(self, session: SessionId) -> bytes:
        main = sessions.view(self.store, self.me, session).main
        assert main is not None
        return b"".join(sessions.loaded(self.store, session, main).transcript)  # type: ignore[arg-type]
