"""What a writer spells: items in an order and a form that its target has a place for.

Promises of `arrange` to the writers:

* Texts, thoughts and calls of one reply follow one another and share a `reply` that no other reply has.
* Every call has one result. The results of a reply follow it, in the order of its calls, with nothing between.
* Call ids are unique and legal for the target, texts are not empty, media and notes are of kinds the target takes.
* Only the items before a `Fold` or a `Cut` have `live` false, and shell commands hidden from the model.
"""

from __future__ import annotations

from dataclasses import dataclass

from hhd_protocol.transcript import Call, Compaction, Message, Result, Shell, Text, Thinking

Spoken = Message | Text | Thinking | Call | Result | Shell
"""The items that a step may hold."""


@dataclass(frozen=True, kw_only=True)
class Fold:
    """A compaction: from here on the model gets `before`, the summary, `after`, and what follows.

    `last`: no other fold comes. Only the last one has `before` and `after`.
    """

    compaction: Compaction
    summary: str
    before: tuple[Spoken, ...] = ()
    after: tuple[Spoken, ...] = ()
    last: bool = True


@dataclass(frozen=True, kw_only=True)
class Cut:
    """What came before is kept in the file, but not sent: the conversation begins anew here."""


Step = Spoken | Fold | Cut
