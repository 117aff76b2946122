"""Plain records as values of a message, by the names of their fields, and back (`spec/control.md`, Values).

Which shape is wanted, the receiver's own types say, and nothing else passes: no field too many or too few, no number
where a text belongs. So a record that arrives is one that could have been made here.
"""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Mapping
from typing import Any, Union, get_args, get_origin

from hhd_protocol.codec import Value
from hhd_protocol.errors import FormatError


def to_value(plain: object) -> Value:
    """Return a record, a sequence of records, or a scalar, as the value that stands for it."""
    if plain is None or type(plain) in (bool, int, bytes):
        return typing.cast(Value, plain)
    if isinstance(plain, str):
        return _from_text(plain)
    if isinstance(plain, int | bytes):  # An enumeration of numbers, an id with a type of its own.
        return int(plain) if isinstance(plain, int) else bytes(plain)
    if dataclasses.is_dataclass(plain) and not isinstance(plain, type):
        return {field.name: to_value(getattr(plain, field.name)) for field in dataclasses.fields(plain)}
    if isinstance(plain, tuple) and hasattr(plain, "_fields"):
        return {name: to_value(one) for name, one in zip(plain._fields, plain, strict=True)}
    if isinstance(plain, tuple | list):
        return [to_value(one) for one in plain]
    raise TypeError(f"{type(plain).__name__} is no plain value")


def from_value(wanted: Any, value: Value) -> Any:
    """Return the `wanted` type's value that `value` stands for; raises FormatError if it stands for none.

    `wanted`: None, bool, int, str, bytes, a frozen dataclass or named tuple of such, `tuple[X, ...]`, `tuple[X, Y]`,
    `list[X]`, or a union of one of them and None.
    """
    while isinstance(wanted, typing.NewType):  # An id with a type of its own.
        wanted = wanted.__supertype__
    if wanted is None or wanted is type(None):
        return _insist(value is None, value, wanted)
    if wanted is str:
        return _to_text(value)
    if wanted in (bool, int, bytes):
        return _insist(type(value) is wanted, value, wanted)
    origin, inner = get_origin(wanted), get_args(wanted)
    if origin in (Union, types.UnionType):
        return _one_of(inner, value)
    if origin in (list, tuple):
        return _sequence(origin, inner, value)
    return _record(wanted, value)


def arguments(wanted: Mapping[str, Any], optional: frozenset[str], value: Mapping[Value, Value]) -> dict[str, Any]:
    """Return the arguments of a call by name; those that are `optional` may be left out. Raises FormatError."""
    unknown = [name for name in value if name not in wanted]
    if unknown:
        raise FormatError(f"there is no argument {unknown[0]!r:.80}")
    missing = [name for name in wanted if name not in value and name not in optional]
    if missing:
        raise FormatError(f"the argument {missing[0]} is missing")
    found = {}
    for name, given in value.items():
        assert isinstance(name, str)
        try:
            found[name] = from_value(wanted[name], given)
        except FormatError as error:
            raise FormatError(f"the argument {name} is not what it should be: {error}") from error
    return found


def _record(wanted: Any, value: Value) -> Any:
    shape = _shape(wanted)
    if type(value) is not dict or value.keys() != shape.keys():
        raise FormatError(f"a {wanted.__name__} has other fields than it should have")
    return wanted(**{name: from_value(kind, value[name]) for name, kind in shape.items()})


@functools.cache
def _shape(wanted: Any) -> dict[str, Any]:
    """The fields of a record and their types."""
    hints = typing.get_type_hints(wanted)
    if dataclasses.is_dataclass(wanted):
        return {field.name: hints[field.name] for field in dataclasses.fields(wanted)}
    if hasattr(wanted, "_fields"):
        return {name: hints[name] for name in wanted._fields}
    raise TypeError(f"{wanted!r} is no type of a plain value")


def _sequence(origin: Any, inner: tuple[Any, ...], value: Value) -> Any:
    if type(value) is not list:
        raise FormatError("a sequence is none")
    if origin is list or (len(inner) == 2 and inner[1] is Ellipsis):
        return origin(from_value(inner[0], one) for one in value)
    if len(value) != len(inner):
        raise FormatError("a row has other columns than it should have")
    return tuple(from_value(kind, one) for kind, one in zip(inner, value, strict=True))


def _one_of(inner: tuple[Any, ...], value: Value) -> Any:
    """Only one thing and None: of two others, the one that is meant could not be told by looking."""
    rest = [kind for kind in inner if kind is not type(None)]
    if len(rest) != 1 or len(inner) != 2:
        raise TypeError("a union of a message has more than one member besides None")
    return None if value is None else from_value(rest[0], value)


def _insist(holds: bool, value: Value, wanted: Any) -> Value:
    if not holds:
        raise FormatError(f"a value of kind {type(value).__name__} stands where another belongs")
    return value


def _from_text(text: str) -> Value:
    """A text, or the bytes of one that has lone surrogates: names of files and words of a command line may."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return str(text)


def _to_text(value: Value) -> str:
    if type(value) is str:
        return value
    if type(value) is bytes:
        try:
            text = value.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            raise FormatError("a text is none") from error
        if _from_text(text) == value:
            return text
    raise FormatError(f"a value of kind {type(value).__name__} stands where a text belongs")
