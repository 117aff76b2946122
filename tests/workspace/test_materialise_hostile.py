"""Every attack on who materialises carries a payload that touches a file: it never does, and does with the guards off.

An attack names the guards that stop it. With all of them off the payload must arrive, so that it is a real one; with
each of them on alone it must not, where there are several.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.workspace.by_hand import BOX, ENV, Pieces, capture, everything, file, git, repository

from hhd.base import beneath
from hhd.base.errors import UserError
from hhd.workspace import fitting, new, objects, states
from hhd.workspace import git as runner
from hhd.workspace.errors import HostileCapture, NotOurs
from hhd.workspace.fitting import Fold
from hhd.workspace.materialise import held, materialise
from hhd_protocol import workspace
from hhd_protocol.workspace import Capture, Entry, Flag, History, IndexEntry, Kind, ObjectFormat, Repository

Switch = Callable[[pytest.MonkeyPatch], None]


def _pass(*_: object, **__: object) -> None:
    """What a guard is when it is off."""


def names(patch: pytest.MonkeyPatch) -> None:
    """The rule of names, of the capture and of trees, and the walker's own."""
    patch.setattr(workspace, "check_path", _pass)
    patch.setattr(states, "check_path", _pass)
    patch.setattr(beneath, "insist_on_names", _pass)
    patch.setattr(new, "parts_of", lambda path: (path,) if path.startswith(b"/") else tuple(path.split(b"/")))


def nesting(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(workspace, "_check_nesting", _pass)
    patch.setattr(states, "_insist_on_folders", _pass)


def links(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(beneath, "WALK", beneath.WALK & ~os.O_NOFOLLOW)


def strict(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(objects, "STRICT", "")


def modes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(workspace, "_check_entry", _pass)
    patch.setattr(states, "MODE_BITS", 0o7777)


def ids(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(objects, "insist_on_object", _pass)


def distinct(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(new, "insist_on_distinct", _pass)


@dataclass(frozen=True, kw_only=True)
class Attack:
    """A capture, and `mark`: whether its payload was there, asked of the folder it was to arrive at."""

    capture: Capture
    guards: tuple[Switch, ...]
    mark: Callable[[Path], bool]


Build = Callable[[Path, Pieces], Attack]
ATTACKS: dict[str, Build] = {}


def attack(build: Build) -> Build:
    ATTACKS[build.__name__] = build
    return build


def plain(*entries: Entry) -> Capture:
    return Capture(repository=None, entries=tuple(sorted(entries, key=lambda one: one.path)))


def link(path: bytes, target: Path) -> Entry:
    return Entry(path=path, kind=Kind.SYMLINK, target=os.fsencode(target))


@attack
def parent_folder(place: Path, pieces: Pieces) -> Attack:
    one = plain(file("../../canary", pieces.put(b"payload")))
    return Attack(capture=one, guards=(names,), mark=lambda at: any(place.rglob("canary")))


@attack
def climbing_from_a_folder(place: Path, pieces: Pieces) -> Attack:
    one = plain(file("a/../../../canary", pieces.put(b"payload")), Entry(path=b"a", kind=Kind.FOLDER))
    return Attack(capture=one, guards=(names, nesting), mark=lambda at: any(place.rglob("canary")))


@attack
def absolute(place: Path, pieces: Pieces) -> Attack:
    one = plain(file(str(place / "canary"), pieces.put(b"payload")))
    return Attack(capture=one, guards=(names,), mark=lambda at: (place / "canary").exists())


@attack
def backslashes(place: Path, pieces: Pieces) -> Attack:
    one = plain(file("a\\..\\b", pieces.put(b"payload")))
    return Attack(capture=one, guards=(names,), mark=lambda at: (at / "a\\..\\b").exists())


@attack
def below_a_link(place: Path, pieces: Pieces) -> Attack:
    one = plain(link(b"sub", place), file("sub/canary", pieces.put(b"payload")))
    return Attack(capture=one, guards=(nesting, links), mark=lambda at: (place / "canary").exists())


@attack
def below_a_link_of_the_commit(place: Path, pieces: Pieces) -> Attack:
    source = repository(place / "source")
    (source / "sub").symlink_to(place)
    git(source, "add", "-A")
    git(source, "commit", "-qm", "a link")
    one = capture(source, pieces)
    one = dataclasses.replace(one, entries=(file("sub/canary", pieces.put(b"payload")),))
    return Attack(capture=one, guards=(nesting, links), mark=lambda at: (place / "canary").exists())


@attack
def below_a_link_of_the_index(place: Path, pieces: Pieces) -> Attack:
    source = repository(place / "source")
    one = capture(source, pieces)
    assert one.repository is not None
    target = os.fsencode(place)
    oid = bytes.fromhex(git(source, "hash-object", "--stdin", stdin=target).decode().strip())
    staged = IndexEntry(path=b"dir", stage=0, mode=0o120000, object=oid, content=pieces.put(target))
    one = dataclasses.replace(one, repository=dataclasses.replace(one.repository, index=(staged,)))
    return Attack(capture=one, guards=(nesting, links), mark=lambda at: (place / "b.txt").exists())


def _runs(at: Path, mark: Path) -> bool:
    """Whether a plain git, run where the person would run it, runs the payload."""
    for folder in (at, *at.glob("*/")) if at.exists() else ():
        for words in (["status"], ["commit", "-qm", "x", "--allow-empty"]):
            subprocess.run(["git", *words], cwd=folder, env=ENV, check=False, capture_output=True)
    return mark.exists()


def _git_folder(at: str, pieces: Pieces, touch: str) -> list[Entry]:
    """The files of a repository whose settings name a program."""
    config = f"[core]\n\trepositoryformatversion = 0\n\tfsmonitor = {touch}; true\n"
    return [
        file(f"{at}/HEAD", pieces.put(b"ref: refs/heads/main\n")),
        file(f"{at}/config", pieces.put(config.encode())),
        Entry(path=f"{at}/objects".encode(), kind=Kind.FOLDER),
        Entry(path=f"{at}/refs".encode(), kind=Kind.FOLDER),
    ]


@attack
def settings_of_a_nested_repository(place: Path, pieces: Pieces) -> Attack:
    one = plain(*_git_folder("sub/.git", pieces, f"touch {place}/ran"))
    return Attack(capture=one, guards=(names,), mark=lambda at: _runs(at, place / "ran"))


@attack
def a_link_to_a_worktree(place: Path, pieces: Pieces) -> Attack:
    """`sub/.git` is a file that leads to a folder with settings, which arrives under another name."""
    evil = _git_folder("evil", pieces, f"touch {place}/ran")
    one = plain(*evil, file("sub/.git", pieces.put(b"gitdir: ../evil\n")))
    return Attack(capture=one, guards=(names,), mark=lambda at: _runs(at, place / "ran"))


@attack
def a_hook(place: Path, pieces: Pieces) -> Attack:
    source = repository(place / "source")
    one = capture(source, pieces)
    hook = file(".git/hooks/pre-commit", pieces.put(f"#!/bin/sh\ntouch {place}/ran\n".encode()), 0o755)
    one = dataclasses.replace(one, entries=(hook,))
    return Attack(capture=one, guards=(names,), mark=lambda at: _runs(at, place / "ran"))


def _inside(path: str) -> Build:
    def build(place: Path, pieces: Pieces) -> Attack:
        one = capture(repository(place / "source"), pieces)
        one = dataclasses.replace(one, entries=(file(path, pieces.put(b"payload")),))
        return Attack(
            capture=one,
            guards=(names,),
            mark=lambda at: os.path.exists(os.fsencode(at) + b"/" + os.fsencode(path)),
        )

    return build


for _path in (
    ".git/info/attributes", ".git/objects/info/alternates", ".git/config.worktree", ".git/worktrees/x/gitdir",
    ".git/modules/x/config", ".GIT/config", ".Git/config", ".git./config", ".git /config", ".git . ./config",
    "git~1/config", "GIT~1/config", ".git::$INDEX_ALLOCATION/config", ".g\u200cit/config", "\u200e.git/config",
    ".git\ufeff/config", "sub/.GiT/hooks/post-checkout", "dir/.git", "C:/canary", "x/./canary", 
):  # fmt: skip
    ATTACKS[f"inside {_path!r}"] = _inside(_path)


def _tree_attack(name: str, *records: tuple[str, str, bytes], guards: tuple[Switch, ...], marked: str) -> None:
    """A commit whose tree holds records that no git would write: (mode, "blob" or "tree", name)."""

    def build(place: Path, pieces: Pieces) -> Attack:
        source = repository(place / "source")
        content = b"#!/bin/sh\n"
        blob = git(source, "hash-object", "-w", "--stdin", stdin=content).decode().strip()
        target = git(source, "hash-object", "-w", "--stdin", stdin=os.fsencode(place)).decode().strip()
        inner = _tree(source, [("100644", b"canary", blob)])
        ids = {"blob": blob, "tree": inner, "link": target}
        tree = _tree(source, [(mode, path, ids[kind]) for mode, kind, path in records])
        commit = git(source, "commit-tree", tree, "-m", "evil").decode().strip()
        listed = "\n".join({commit, tree, *ids.values()}).encode() + b"\n"
        pack = git(source, "pack-objects", "--stdout", "-q", stdin=listed)
        one = Capture(
            repository=Repository(
                object_format=ObjectFormat.SHA1,
                head=bytes.fromhex(commit),
                branch=b"refs/heads/main",
                history=History(packs=(pieces.put(pack),)),
            ),
            entries=(),
        )
        return Attack(capture=one, guards=guards, mark=lambda at: _there(at, place, marked))

    ATTACKS[name] = build


def _there(at: Path, place: Path, marked: str) -> bool:
    if marked == "outside":
        return any(place.rglob("canary"))
    return (at / marked).exists()


def _tree(source: Path, records: list[tuple[str, bytes, str]]) -> str:
    raw = b"".join(mode.encode() + b" " + path + b"\0" + bytes.fromhex(oid) for mode, path, oid in records)
    return git(source, "hash-object", "-w", "-t", "tree", "--literally", "--stdin", stdin=raw).decode().strip()


_tree_attack("a tree with ..", ("40000", "tree", b".."), guards=(strict, names), marked="outside")
_tree_attack("a tree with .git", ("40000", "tree", b".git"), guards=(strict, names), marked=".git/canary")
_tree_attack("a tree with .GIT", ("40000", "tree", b".GIT"), guards=(strict, names), marked=".GIT/canary")
_tree_attack("a tree with git~1", ("40000", "tree", b"git~1"), guards=(strict, names), marked="git~1/canary")
_tree_attack("a tree with a slash", ("100644", "blob", b"../../canary"), guards=(strict, names), marked="outside")
_tree_attack("a file set to another user", ("104755", "blob", b"tool"), guards=(strict,), marked="tool")
_tree_attack(
    "a tree with an entry twice",
    ("120000", "link", b"sub"),
    ("40000", "tree", b"sub"),
    guards=(strict, nesting, links),
    marked="outside",
)


@attack
def a_mode_of_another_user(place: Path, pieces: Pieces) -> Attack:
    one = plain(file("tool", pieces.put(b"payload"), 0o4755))
    return Attack(capture=one, guards=(modes,), mark=lambda at: _mode(at / "tool") & 0o4000 != 0)


def _mode(path: Path) -> int:
    return path.stat().st_mode if path.exists() else 0


@attack
def content_of_another_object(place: Path, pieces: Pieces) -> Attack:
    source = repository(place / "source")
    one = capture(source, pieces)
    assert one.repository is not None
    evil = b"payload"
    oid = git(source, "hash-object", "--stdin", stdin=evil).decode().strip()
    known = bytes.fromhex(git(source, "rev-parse", "HEAD:a.txt").decode().strip())
    staged = IndexEntry(path=b"x", stage=0, mode=0o100644, object=known, content=pieces.put(evil))
    one = dataclasses.replace(one, repository=dataclasses.replace(one.repository, index=(staged,)))

    def arrived(at: Path) -> bool:
        return at.exists() and git(at, "cat-file", "-t", oid, check=False) == b"blob\n"

    return Attack(capture=one, guards=(ids,), mark=arrived)


@attack
def names_that_are_one_on_the_target(place: Path, pieces: Pieces) -> Attack:
    """`Sub` is a link out; `sub/canary` goes through it where case does not count."""
    one = plain(file("README", pieces.put(b"one")), file("readme", pieces.put(b"two")))
    return Attack(capture=one, guards=(distinct,), mark=lambda at: (at / "readme").exists())


def _act(one: Capture, pieces: Pieces, at: Path) -> None:
    with held(at, BOX) as place:
        materialise(one, pieces.get, at, place)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "place").mkdir()
    return tmp_path / "place"


def _fold(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "names_that_are_one_on_the_target":
        monkeypatch.setattr(new, "probe", lambda folder: Fold(case=True, form=False))


@pytest.mark.parametrize("name", ATTACKS)
def test_it_is_refused_and_touches_nothing(name: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _fold(name, monkeypatch)
    pieces, at = Pieces(), place / "there" / "target"
    at.parent.mkdir()
    one = ATTACKS[name](place, pieces)
    with pytest.raises(HostileCapture):
        _act(one.capture, pieces, at)
    assert not one.mark(at)
    assert list(at.parent.iterdir()) == []


@pytest.mark.parametrize("name", ATTACKS)
def test_with_its_guards_off_it_arrives(name: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _fold(name, monkeypatch)
    pieces, at = Pieces(), place / "there" / "target"
    at.parent.mkdir()
    one = ATTACKS[name](place, pieces)
    for off in one.guards:
        off(monkeypatch)
    monkeypatch.setattr(new.shutil, "rmtree", _pass)  # What was written outside of the tree moves on with nothing.
    with contextlib.suppress(UserError, ValueError):
        _act(one.capture, pieces, at)
    assert one.mark(at), "without its guards the payload must arrive, or the test above proves nothing"


@pytest.mark.parametrize(
    ("name", "number"),
    [(name, number) for name in ("below_a_link", "below_a_link_of_the_commit", "a tree with ..") for number in (0, 1)],
)
def test_each_of_two_guards_is_enough(name: str, number: int, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pieces, at = Pieces(), place / "there" / "target"
    at.parent.mkdir()
    one = ATTACKS[name](place, pieces)
    one.guards[number](monkeypatch)
    with pytest.raises(UserError):
        _act(one.capture, pieces, at)
    assert not one.mark(at)


def test_a_name_with_nul_is_refused(place: Path) -> None:
    """Without the rule Python itself refuses it: there is nothing that could be touched."""
    pieces = Pieces()
    with pytest.raises(HostileCapture, match="NUL"):
        _act(plain(file("a\0b", pieces.put(b"x"))), pieces, place / "target")
    with pytest.raises(HostileCapture, match="NUL"):
        _act(plain(Entry(path=b"l", kind=Kind.SYMLINK, target=b"a\0b")), pieces, place / "target")


def test_a_link_already_there_is_not_written_through(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a checkout: an ignored link of the person's stands where a folder is to come."""
    pieces, target = Pieces(), repository(place / "target")
    (place / "outside").mkdir()
    (target / ".git/info").mkdir(exist_ok=True)
    (target / ".git/info/exclude").write_text("/sub\n")
    (target / "sub").symlink_to(place / "outside")
    source = repository(place / "source")
    (source / "sub").mkdir()
    (source / "sub/canary").write_text("payload")
    wanted, now = capture(source, pieces), capture(target, pieces)
    before = everything(target)
    with pytest.raises(NotOurs), held(target, BOX) as hold:
        materialise(wanted, pieces.get, target, hold, now=now)
    assert everything(target) == before and not (place / "outside/canary").exists()
    links(monkeypatch)
    monkeypatch.setattr("hhd.workspace.planning.stat.S_ISDIR", lambda mode: True)
    with held(target, BOX) as hold:
        materialise(wanted, pieces.get, target, hold, now=now)
    assert (place / "outside/canary").exists()


def test_a_tree_that_unfolds_without_end_is_refused_before_it_is_listed_whole(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten levels of ten times the same: a few objects, ten thousand million files."""
    pieces, source = Pieces(), repository(place / "source")
    oid = git(source, "hash-object", "-w", "--stdin", stdin=b"x").decode().strip()
    held_ids = [oid]
    for level in range(10):
        kind = "40000" if level else "100644"
        oid = _tree(source, [(kind, b"%d" % n, oid) for n in range(10)])
        held_ids.append(oid)
    commit = git(source, "commit-tree", oid, "-m", "bomb").decode().strip()
    pack = git(source, "pack-objects", "--stdout", "-q", stdin="\n".join([commit, *held_ids]).encode() + b"\n")
    one = Capture(
        repository=Repository(
            object_format=ObjectFormat.SHA1,
            head=bytes.fromhex(commit),
            branch=b"refs/heads/main",
            history=History(packs=(pieces.put(pack),)),
        ),
        entries=(),
    )
    monkeypatch.setattr(objects, "WORKSPACE_ENTRIES_MAX", 20_000)
    with pytest.raises(HostileCapture, match="more than"):
        _act(one, pieces, place / "target")
    assert not (place / "target").exists()


def test_an_object_that_unfolds_past_the_bound_is_refused_before_it_is_held(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pack of three megabytes may hold a tree of three gigabytes, which git would take into memory to judge it."""
    pieces, source = Pieces(), repository(place / "source")
    (source / "zeros").write_bytes(bytes(16 * 1024 * 1024))
    git(source, "add", "zeros")
    git(source, "commit", "-qm", "zeros")
    one = capture(source, pieces)
    monkeypatch.setattr(objects, "MEMORY_MAX", "8m")
    with pytest.raises(HostileCapture, match="git refuses"):
        _act(one, pieces, place / "target")
    assert not (place / "target").exists()
    monkeypatch.setattr(objects, "MEMORY_MAX", "32m")
    _act(one, pieces, place / "target")
    assert (place / "target/zeros").stat().st_size == 16 * 1024 * 1024


@pytest.mark.parametrize("damage", ["cut", "flipped", "other", "short piece"])
def test_a_damaged_pack_or_piece_is_refused(place: Path, damage: str) -> None:
    pieces, source = Pieces(), repository(place / "source")
    one = capture(source, pieces)
    assert one.repository is not None
    (pack,) = one.repository.history.packs
    raw = pieces.get(pack.pieces[0])
    flipped = raw[:40] + bytes([raw[40] ^ 1]) + raw[41:]
    bad = {"cut": raw[:-30], "flipped": flipped, "other": b"PACK", "short piece": raw}
    content = pieces.put(bad[damage])
    if damage == "short piece":
        pieces.held[content.pieces[0]] = raw[:-1]
    history = dataclasses.replace(one.repository.history, packs=(content,))
    one = dataclasses.replace(one, repository=dataclasses.replace(one.repository, history=history))
    with pytest.raises(HostileCapture):
        _act(one, pieces, place / "target")
    assert not (place / "target").exists()


@pytest.mark.parametrize("lacking", ["head", "index", "history"])
def test_a_capture_that_names_what_did_not_come_is_refused(place: Path, lacking: str) -> None:
    pieces, source = Pieces(), repository(place / "source")
    one = capture(source, pieces)
    kept = one.repository
    assert kept is not None
    if lacking == "head":
        kept = dataclasses.replace(kept, head=b"\1" * 20)
    elif lacking == "index":
        entry = IndexEntry(path=b"x", stage=0, mode=0o100644, object=b"\1" * 20, flags=Flag.NONE)
        kept = dataclasses.replace(kept, index=(entry,))
    else:
        kept = dataclasses.replace(kept, history=History())
    with pytest.raises(HostileCapture, match="did not come"):
        _act(dataclasses.replace(one, repository=kept), pieces, place / "target")
    assert not (place / "target").exists()


@pytest.mark.parametrize("branch", [b"refs/heads/../../config", b"HEAD", b"refs/heads/a\nb", b"refs/heads/-x"])
def test_a_branch_of_another_form_is_refused(place: Path, branch: bytes) -> None:
    """Here git itself is the second guard, and it cannot be switched off."""
    pieces = Pieces()
    one = capture(repository(place / "source"), pieces)
    assert one.repository is not None
    one = dataclasses.replace(one, repository=dataclasses.replace(one.repository, branch=branch))
    with pytest.raises(HostileCapture, match="branch"):
        _act(one, pieces, place / "target")
    assert not (place / "target").exists()


@pytest.mark.parametrize("path", [b"", b"x//canary", b"/", b"x/", b".", b"\xff/../x", b"x" * 300, b"x/" * 3000 + b"x"])
def test_what_is_no_path_is_refused(place: Path, path: bytes) -> None:
    pieces = Pieces()
    with pytest.raises(HostileCapture):
        _act(plain(Entry(path=path, kind=Kind.FILE, content=pieces.put(b"x"))), pieces, place / "target")
    assert not (place / "target").exists()


def test_submodules_never_reach_the_settings(place: Path) -> None:
    pieces, source = Pieces(), repository(place / "source")
    inner = repository(place / "inner")
    git(source, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "module")
    git(source, "commit", "-qam", "module")
    git(source, "config", "remote.origin.url", "ext::sh -c touch% ran")
    one = dataclasses.replace(capture(source, pieces), entries=())
    _act(one, pieces, place / "target")
    assert git(source, "config", "--get-regexp", r"^(submodule|remote)\."), "the control: the source has them"
    assert not git(place / "target", "config", "--get-regexp", r"^(submodule|remote|filter|include)\.", check=False)
    assert list((place / "target/module").iterdir()) == []


def test_hooks_and_filters_of_a_checkout_do_not_run_while_it_is_written_to(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces, target, source = Pieces(), repository(place / "target"), repository(place / "source")
    (source / ".gitattributes").write_text("* filter=evil diff=evil\n")
    (source / "a.txt").write_text("two\n")
    git(source, "add", "-A")
    git(source, "commit", "-qm", "two")
    touch = f"touch {place}/ran; cat"
    for key in ("filter.evil.clean", "filter.evil.smudge", "core.fsmonitor", "diff.evil.textconv", "core.pager"):
        git(target, "config", key, touch)
    (target / ".git/hooks").mkdir(exist_ok=True)
    for name in ("reference-transaction", "post-index-change", "post-checkout"):
        (target / ".git/hooks" / name).write_text(f"#!/bin/sh\ntouch {place}/ran\n")
        (target / ".git/hooks" / name).chmod(0o755)
    now, wanted = capture(repository(place / "twin"), pieces), capture(source, pieces)
    assert not (place / "ran").exists()
    with held(target, BOX) as hold:
        materialise(wanted, pieces.get, target, hold, now=now)
    assert not (place / "ran").exists()
    monkeypatch.setattr(runner, "OFF", ())
    with held(target, BOX) as hold:
        materialise(now, pieces.get, target, hold, now=wanted, last=wanted)
        materialise(wanted, pieces.get, target, hold, now=now)
    assert (place / "ran").exists()


def test_forms_of_one_name_are_found_where_the_system_folds_them() -> None:
    composed, apart = "caf\u00e9".encode(), "cafe\u0301".encode()
    for pair, fold in (
        ((b"A", b"a"), Fold(case=True, form=False)),
        ((b"d/x", b"D/y"), Fold(case=True, form=False)),
        ((composed, apart), Fold(case=False, form=True)),
        (("Stra\u00dfe".encode(), b"STRASSE"), Fold(case=True, form=True)),
    ):
        with pytest.raises(ValueError, match="one name"):
            fitting.insist_on_distinct(pair, fold)
        fitting.insist_on_distinct(pair, Fold(case=False, form=False))
    fitting.insist_on_distinct([b"d/x", b"d/y", b"d/x/z"], Fold(case=True, form=True))


def test_the_file_system_is_asked_what_it_folds(tmp_path: Path) -> None:
    found = fitting.probe(tmp_path)
    (tmp_path / "A").write_text("")
    assert found.case == (tmp_path / "a").exists()
    assert list(tmp_path.iterdir()) == [tmp_path / "A"]
