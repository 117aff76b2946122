"""A deliberate fault in the product's code, which some world has to catch.

A mutant is an edit of one place in the text of one module, made while it is imported. Each kind of worlds has a list of
them, and in `seeds.json` seeds that catch each. Those that break something "found" are faults that the simulation found
in this very code; the edit brings them back.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """`old`, which stands once in `module`, becomes `new`; `breaks` is the invariant that it hits.

    `wide`: only worlds with removals, or with content that comes later, can show it.
    """

    breaks: str
    module: str
    old: str
    new: str
    wide: bool = False


def install(mutant: Mutant) -> None:
    """From now on the mutant's module is imported with the fault in it."""
    assert mutant.module not in sys.modules, f"{mutant.module} is imported already"
    sys.meta_path.insert(0, _Finder(mutant))


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._mutant.module:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        assert spec is not None and spec.origin is not None
        return importlib.util.spec_from_file_location(
            fullname, spec.origin, loader=_Loader(fullname, spec.origin, self._mutant)
        )


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, fullname: str, path: str, mutant: Mutant) -> None:
        super().__init__(fullname, path)
        self._mutant = mutant

    def get_code(self, fullname: str) -> object:  # type: ignore[override]
        source = self.get_data(self.path).decode()
        assert source.count(self._mutant.old) == 1, f"the mutant's place is gone or doubled: {self._mutant.old}"
        return compile(source.replace(self._mutant.old, self._mutant.new), self.path, "exec")
