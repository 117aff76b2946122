"""A session driven in a test: a face with prepared answers, and one capsule with its device around it."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.e2e.lab import call, says

from hhd.base.config import load
from hhd.effects.confine import Workspace
from hhd.effects.sandbox import Sandbox
from hhd.node import capsules
from hhd.node.capsule_session import CapsuleSession
from hhd.node.ended import Ended
from hhd.node.run import Here, Run


@dataclass
class Person:
    """A face with prepared answers."""

    answers: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    meanwhile: list[str] = field(default_factory=list)
    screen: str = ""

    def text(self, piece: str) -> None:
        self.screen += piece

    def notice(self, sentence: str) -> None:
        self.screen += f"({sentence})\n"

    def emitted(self, piece: bytes) -> None: ...

    def write(self, text: str) -> None:
        self.screen += text

    def read(self, prompt: str) -> str | None:
        return self.answers.pop(0) if self.answers else None

    def listen(self, prompt: str, why: str) -> str | None:
        return self.words.pop(0) if self.words else None

    def steering(self) -> list[str]:
        heard, self.meanwhile = self.meanwhile, []
        return heard


@dataclass
class Bench:
    """One session and the device it is on."""

    folder: Path
    script: list[Any]
    today: datetime.date = datetime.date(2026, 11, 29)
    rules: dict[str, object] = field(default_factory=lambda: {"allow": ["bash", "write", "edit"]})

    def __post_init__(self) -> None:
        self.path = self.folder / "c.hhd"
        self.repo = self.folder / "repo"
        self.repo.mkdir(parents=True, exist_ok=True)
        capsules.new("agent", self.path, args={"prompt": "go"}, embed=True, force=True)

    @contextmanager
    def run(self, person: Person, repo: Path | None = None) -> Iterator[Run]:
        (self.folder / "s.jsonl").write_text("".join(json.dumps(reply) + "\n" for reply in self.script))
        config = load()
        object.__setattr__(config, "policy", self.rules)
        sandbox = Sandbox(program=None, reason="not under test", network=True, hidden=())
        model = f"scripted:{self.folder / 's.jsonl'}"
        here = Here(config=config, sandbox=sandbox, model=model, today=lambda: self.today)
        with Workspace(repo or self.repo) as workspace, CapsuleSession(self.path) as session:
            yield Run(session=session, here=here, workspace=workspace, face=person)

    def go(self, person: Person | None = None, repo: Path | None = None) -> Ended:
        with self.run(person or Person(), repo) as run:
            return run.go()

    def events(self, kind: str) -> list[dict[str, Any]]:
        lines = b"".join(capsules.transcript(self.path)).splitlines()
        return [event for event in map(json.loads, lines) if event["event"] == kind]


GLOB = says(call("glob", pattern="*"))
