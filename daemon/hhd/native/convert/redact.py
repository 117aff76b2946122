"""Credential shapes in the texts of a session: found, counted, and on request replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from hhd.base.credentials import redacted
from hhd.native.convert.ledger import Ledger
from hhd_protocol.transcript import (
    Call,
    Compaction,
    Did,
    Form,
    Gap,
    Item,
    LossKind,
    Message,
    Note,
    Part,
    Result,
    Shell,
    Text,
    TextPart,
    Thinking,
)


def without_secrets(items: Iterable[Item], ledger: Ledger) -> Iterator[Item]:
    """The items with each credential shape replaced by its kind; JSON arguments stay valid JSON."""
    for item in items:
        changed, kinds = _clean(item)
        for kind in kinds:
            ledger.note(LossKind.SECRET, Did.CHANGED, f"what looks like {kind} was taken out", item.at)
        yield changed


def _clean(item: Item) -> tuple[Item, list[str]]:
    kinds: list[str] = []

    def text(value: str) -> str:
        cleaned, found = redacted(value)
        kinds.extend(found)
        return cleaned

    def parts(values: tuple[Part, ...]) -> tuple[Part, ...]:
        return tuple(TextPart(text(p.text)) if isinstance(p, TextPart) else p for p in values)

    fields: dict[str, object] = {}
    if isinstance(item, Message | Result | Note):
        fields["parts"] = parts(item.parts)
    elif isinstance(item, Text | Thinking):
        fields["text"] = text(item.text)
    elif isinstance(item, Call):
        fields["arguments"] = _arguments(item, text)
    elif isinstance(item, Compaction):
        fields["summary"] = text(item.summary) if item.summary is not None else None
    elif isinstance(item, Shell):
        fields["command"], fields["output"] = text(item.command), text(item.output)
    else:
        assert isinstance(item, Gap)
    return (msgspec.structs.replace(item, **fields) if kinds else item), kinds


def _arguments(item: Call, text: Callable[[str], str]) -> str:
    if item.form is Form.TEXT:
        return text(item.arguments)
    try:
        value = msgspec.json.decode(item.arguments)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return text(item.arguments)
    cleaned = _inside(value, text)
    return item.arguments if cleaned == value else msgspec.json.encode(cleaned).decode()


def _inside(value: object, text: Callable[[str], str]) -> object:
    if isinstance(value, str):
        return text(value)
    if isinstance(value, list):
        return [_inside(item, text) for item in value]
    if isinstance(value, dict):
        return {text(key): _inside(item, text) for key, item in value.items()}
    return value
