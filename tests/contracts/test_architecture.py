"""The map of the house, `daemon/ARCHITECTURE.md`, is of this house: every module is on it, and nothing else."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

TOP = Path(__file__).parents[2]
MAP = (TOP / "daemon/ARCHITECTURE.md").read_text()
ROOTS = {"hhd": TOP / "daemon", "hhd_protocol": TOP / "protocol"}
ROOMS_BY_PARTS = (
    "node",
    "node.handoff",
    "node.relay",
    "node.sync",
    "store",
    "workspace",
    "registry",
    "effects",
    "runtime",
)
BY_PARTS = {"hhd", "hhd_protocol", *(f"hhd.{room}" for room in ROOMS_BY_PARTS)}
"""Packages whose modules the map names one by one; of any other it may name the whole."""


@cache
def modules() -> set[str]:
    """The dotted names of all modules and packages."""
    found = set()
    for package, root in ROOTS.items():
        for file in (root / package).rglob("*.py"):
            found.add(".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__"))
    return found


def is_there(name: str) -> bool:
    """Whether there is a module of this dotted name, or a folder of things that are no modules."""
    root = ROOTS.get(name.partition(".")[0])
    return root is not None and (name in modules() or (root / name.replace(".", "/")).is_dir())


def named(page: str) -> dict[str, set[str]]:
    """What stands in the left column of the table of rooms, each with the names it may mean."""
    table = page.split("## Rooms")[1].split("\n## ")[0]
    found: dict[str, set[str]] = {}
    for row in re.findall(r"^\| (`[^|]*) \|", table, re.MULTILINE):
        whole = ""
        for name in re.findall(r"`([^`]+)`", row):
            if name.startswith("."):  # A sibling of the name written out before it, or a part of that.
                found[f"{whole} {name}"] = {whole.rpartition(".")[0] + name, whole + name}
            elif name != "guest/agent":
                whole, found[name] = name, {name}
    return found


def unnamed(page: str) -> set[str]:
    """The modules that the map leaves out."""
    on_it = set().union(*named(page).values())
    return {
        one
        for one in modules() - on_it - BY_PARTS
        if not any(one.startswith(f"{package}.") for package in on_it - BY_PARTS) and not one.endswith("__main__")
    }


def test_everything_on_the_map_is_in_the_house() -> None:
    assert len(named(MAP)) > 100
    assert [name for name, meanings in named(MAP).items() if not any(map(is_there, meanings))] == []


def test_every_module_is_on_the_map() -> None:
    assert unnamed(MAP) == set()
    assert unnamed(MAP.replace(", `.gitdir`", "")) == {"hhd.workspace.gitdir"}


def test_no_two_rows_of_the_map_are_for_the_same_modules() -> None:
    rows = re.findall(r"^\| (`[^|]*) \|", MAP.split("## Rooms")[1].split("\n## ")[0], re.MULTILINE)
    assert len(rows) == len(set(rows))


def test_every_folder_that_the_map_names_at_the_top_is_there() -> None:
    block = MAP.split("## Top level")[1].split("One `pyproject.toml`")[0]
    lines = [re.findall(r"(\w+)/", line) for line in block.splitlines()]
    assert len([words for words in lines if words]) >= 5
    for words in filter(None, lines):
        missing = [word for word in words if not ((TOP / word).is_dir() or (TOP / words[0] / word).is_dir())]
        assert missing == []
