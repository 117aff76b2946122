"""Which lines of some modules run while something else does: enough to say how far a fuzzer reaches."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import CodeType, FrameType, ModuleType
from typing import Any


class Lines:
    """Lines that could run and lines that did, by file."""

    def __init__(self, modules: Sequence[ModuleType]) -> None:
        self.possible: dict[str, set[int]] = {}
        self.run: dict[str, set[int]] = {}
        for module in modules:
            assert module.__file__
            source = open(module.__file__, encoding="utf-8").read()  # noqa: SIM115
            self.possible[module.__file__] = set(_lines(compile(source, module.__file__, "exec"), inside=False))
            self.run[module.__file__] = set()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watch what runs within."""
        before = sys.gettrace()
        sys.settrace(self._enter)
        try:
            yield
        finally:
            sys.settrace(before)

    def share(self, file: str) -> float:
        """Return the share of the lines within functions that ran."""
        return len(self.run[file] & self.possible[file]) / max(1, len(self.possible[file]))

    def _enter(self, frame: FrameType, event: str, _: Any) -> Any:
        return self._line if frame.f_code.co_filename in self.run else None

    def _line(self, frame: FrameType, event: str, _: Any) -> Any:
        self.run[frame.f_code.co_filename].add(frame.f_lineno)
        return self._line


def _lines(code: CodeType, *, inside: bool) -> Iterator[int]:
    if inside:
        yield from {line for _, _, line in code.co_lines() if line is not None and line != code.co_firstlineno}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _lines(constant, inside=not constant.co_name.startswith("<") and constant.co_name != "Config")
