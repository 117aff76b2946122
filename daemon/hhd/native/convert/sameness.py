"""Whether what is read back from a written file is what its writer was told to write.

Both sides are reduced to a row of numbers, one an item, so that a gigabyte needs no second copy in memory. What
the target keeps in another form (times, names of models, ids of replies) is left out; all that reaches a model is in.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator

import msgspec

from hhd.native.convert.arrange import is_object
from hhd.native.convert.steps import Cut, Fold, Spoken, Step
from hhd_protocol.transcript import (
    Call,
    Compaction,
    Form,
    Gap,
    Harness,
    Item,
    MediaPart,
    Message,
    Note,
    OtherPart,
    Outcome,
    Part,
    Result,
    Shell,
    Text,
    TextPart,
    Thinking,
)


class Expected:
    """The row of what was written, filled while steps pass by on their way to the writer."""

    def __init__(self, target: Harness) -> None:
        self._target = target
        self.row = array("q")
        self.items = 0

    def watch(self, steps: Iterable[Step]) -> Iterator[Step]:
        """Pass `steps` on, noting what each must read back as."""
        behind = array("q")
        for step in steps:
            if isinstance(step, Fold):
                self._fold(step)
            elif isinstance(step, Cut):
                # What stands before it is in the file, but on no line that leads to the end.
                behind, self.row = self.row or behind, array("q")
            else:
                self.items += 1
                self.row.append(_number(step, self._target))
            yield step
        self.row = self.row or behind

    def _fold(self, fold: Fold) -> None:
        kept = (*fold.before, *fold.after)
        self.items += len(kept) + 1
        if self._target is Harness.PI:
            self.row.extend(_number(item, self._target) for item in kept)
            self.row.append(_summary(fold.summary))
        else:
            self.row.append(_summary(fold.summary))
            self.row.extend(_number(item, self._target) for item in kept)


def row_of(items: Iterable[Item], target: Harness) -> array[int]:
    """The row of what was read back."""
    row = array("q")
    for item in items:
        if isinstance(item, Compaction):
            row.append(_summary(item.summary or ""))
        elif isinstance(item, Gap | Note):
            row.append(hash((type(item).__name__, item.at)))
        else:
            row.append(_number(item, target))
    return row


def _summary(text: str) -> int:
    return hash(("summary", text))


def _number(item: Spoken, target: Harness) -> int:
    if type(item) is Text:
        return hash(("text", item.text))
    if type(item) is Message:
        if len(item.parts) == 1 and type(item.parts[0]) is TextPart:
            return hash(("message", item.parts[0].text))
        return hash(("message", *map(_part, item.parts)))
    if type(item) is Call:
        return hash(("call", item.id, item.name, item.namespace, item.form, _arguments(item)))
    if type(item) is Result:
        is_error = item.outcome is Outcome.ERROR and target is not Harness.CODEX
        return hash(("result", item.call, is_error, *map(_part, _without_empty(item.parts))))
    if type(item) is Thinking:
        return hash(("thinking", item.text, item.sealed))
    assert type(item) is Shell
    return hash(("shell", item.command, item.output, item.exit_code, item.cancelled, item.live))


def _without_empty(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    return tuple(part for part in parts if not (type(part) is TextPart and not part.text))


def _part(part: Part) -> object:
    if type(part) is TextPart:
        return part.text
    if type(part) is MediaPart:
        return (part.form == "image", part.mime if part.base64 else None, part.base64, part.url)
    assert type(part) is OtherPart
    return (part.form, part.json)


def _arguments(call: Call) -> str:
    """Arguments as one spelling: clients that hold an object may space it differently."""
    if call.form is Form.JSON and is_object(call.arguments):
        return msgspec.json.format(call.arguments, indent=-1)
    return call.arguments
