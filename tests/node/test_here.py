"""Where a session works on this device: what its folder is called, and what one of hhd's is named after."""

from __future__ import annotations

from pathlib import Path

from hhd.base.paths import workspaces_folder
from hhd.node import here

ONE, OTHER = "0123456789abcdef" * 4, "f" * 64


def test_the_name_of_a_folder_of_hhds_does_not_grow_from_capture_to_capture() -> None:
    first = here.ours(Path("/home/alice/repo"), ONE)
    assert first == workspaces_folder() / "repo-0123456789ab"
    assert here.ours(first, OTHER) == workspaces_folder() / "repo-ffffffffffff"
    assert here.called(first.with_name(f"{first.name}-{OTHER[:12]}")) == "repo", "one that grew before"
    assert here.ours(Path(""), ONE).name == "workspace-0123456789ab"
    assert len(here.ours(Path("x" * 255), ONE).name) == 60 + 13


def test_a_folder_of_the_persons_own_keeps_its_whole_name() -> None:
    own = Path("/home/alice/build-0123456789ab")
    assert here.called(own) == own.name
    assert here.ours(own, OTHER).name == f"{own.name}-{OTHER[:12]}"
