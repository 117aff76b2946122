"""Every state of a repository arrives bit for bit, or is refused with a reason; nothing of the repository changes."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.workspace.lab import Pieces, device, git, index, intend, made_from, repository, seen, untouched

from hhd.base.errors import RefusedError
from hhd.workspace.capture import capture
from hhd.workspace.memory import Memory
from hhd.workspace.wanted import Wanted
from hhd_protocol.workspace import Capture, Flag, Kind, OperationKind, Reason

State = Callable[[Path], None]
STATES: dict[str, State] = {}


def state(build: State) -> State:
    STATES[build.__name__] = build
    return build


@state
def clean(folder: Path) -> None:
    pass


@state
def dirty(folder: Path) -> None:
    (folder / "one").write_bytes(b"changed\n")


@state
def staged_and_unstaged_in_one_file(folder: Path) -> None:
    (folder / "one").write_bytes(b"staged\n")
    git(folder, "add", "one")
    (folder / "one").write_bytes(b"staged\nand not\n")


@state
def binary(folder: Path) -> None:
    (folder / "one").write_bytes(bytes(range(256)) * 5000)
    (folder / "new.bin").write_bytes(b"\0" * 3_000_001)
    git(folder, "add", "new.bin")
    (folder / "new.bin").write_bytes(os.urandom(1024 * 1024))


@state
def deleted(folder: Path) -> None:
    (folder / "one").unlink()
    git(folder, "rm", "-q", "four")
    git(folder, "rm", "-q", "--cached", "sub/two")


@state
def renamed(folder: Path) -> None:
    git(folder, "mv", "sub", "moved")
    (folder / "four").rename(folder / "five")


@state
def renamed_in_case_only(folder: Path) -> None:
    git(folder, "mv", "one", "ONE")


@state
def modes(folder: Path) -> None:
    (folder / "one").chmod(0o755)
    (folder / "four").chmod(0o755)
    git(folder, "add", "four")
    (folder / "private").write_bytes(b"x")
    (folder / "private").chmod(0o600)


@state
def empty_folders(folder: Path) -> None:
    (folder / "sub/empty").mkdir()
    (folder / "new/inner/empty").mkdir(parents=True)
    (folder / "new/file").write_bytes(b"x")
    (folder / "alone").mkdir()


@state
def attributes_that_only_the_index_has(folder: Path) -> None:
    (folder / ".gitattributes").write_bytes(b"* text=auto\n")
    (folder / "one").write_bytes(b"a\r\nb\r\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "line ends")
    (folder / ".gitattributes").unlink()


@state
def a_packed_branch_with_an_empty_folder_in_its_place(folder: Path) -> None:
    git(folder, "pack-refs", "--all")
    (folder / ".git/refs/heads/main").mkdir()
    (folder / "one").write_bytes(b"changed\n")


@state
def links(folder: Path) -> None:
    (folder / "inside").symlink_to("sub/two")
    (folder / "outside").symlink_to("/etc/passwd")
    (folder / "dangling").symlink_to("../../nowhere")
    (folder / "one").unlink()
    (folder / "one").symlink_to("four")
    git(folder, "add", "inside")


@state
def a_file_became_a_folder(folder: Path) -> None:
    (folder / "one").unlink()
    (folder / "one").mkdir()
    (folder / "one/inner").write_bytes(b"x")
    shutil.rmtree(folder / "sub")
    (folder / "sub").write_bytes(b"a file now")


@state
def names_that_are_no_text(folder: Path) -> None:
    for name in (b"\xff\xfe", b"new\nline", "ü".encode("latin-1"), b'quo"te', b" lead", b"tab\t", b":(glob)x", b"-n"):
        Path(os.fsdecode(os.path.join(os.fsencode(folder), name))).write_bytes(name)
    git(folder, "add", "--", ":(literal)-n")


@state
def hard_links(folder: Path) -> None:
    os.link(folder / "one", folder / "twin")


@state
def an_intent_to_add(folder: Path) -> None:
    (folder / "later").write_bytes(b"later\n")
    git(folder, "add", "-N", "later")


@state
def assumed_unchanged(folder: Path) -> None:
    git(folder, "update-index", "--assume-unchanged", "one", "four")
    (folder / "one").write_bytes(b"hidden from git\n")


@state
def an_unborn_branch(folder: Path) -> None:
    git(folder, "checkout", "-q", "--orphan", "fresh")
    (folder / "one").write_bytes(b"unborn\n")


@state
def a_detached_head(folder: Path) -> None:
    git(folder, "checkout", "-q", "--detach")
    (folder / "one").write_bytes(b"detached\n")


@state
def a_sparse_checkout(folder: Path) -> None:
    git(folder, "sparse-checkout", "set", "--cone", "elsewhere")
    (folder / "four").write_bytes(b"4 changed\n")
    (folder / "sub").mkdir()
    (folder / "sub/two").write_bytes(b"there in spite of it\n")


@state
def line_ends_converted(folder: Path) -> None:
    git(folder, "config", "core.autocrlf", "true")
    (folder / "one").write_bytes(b"1\r\n")
    git(folder, "add", "one")
    (folder / "four").write_bytes(b"4\r\n")


@state
def attributes_that_convert(folder: Path) -> None:
    (folder / ".gitattributes").write_bytes(b"*.txt text eol=crlf\n*.id ident\n*.u16 working-tree-encoding=UTF-16LE\n")
    (folder / "a.txt").write_bytes(b"line\r\n")
    (folder / "b.id").write_bytes(b"$Id$\n")
    (folder / "c.u16").write_bytes("text\n".encode("utf-16le"))
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "two")
    for name in ("a.txt", "b.id", "c.u16"):
        (folder / name).unlink()
    git(folder, "checkout", "-q", "--", ".")
    assert b"$Id: " in (folder / "b.id").read_bytes()


@state
def pointers_of_large_files(folder: Path) -> None:
    """As with LFS: the object is a pointer, the file is not; the driver is not there."""
    (folder / ".gitattributes").write_bytes(b"*.big filter=lfs -text\n")
    git(folder, "config", "filter.lfs.clean", "echo pointer")
    git(folder, "config", "filter.lfs.required", "true")
    (folder / "x.big").write_bytes(b"large " * 1000)
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "two")


@state
def a_merge_in_progress(folder: Path) -> None:
    git(folder, "checkout", "-qb", "other")
    (folder / "one").write_bytes(b"theirs\n")
    (folder / "side").write_bytes(b"side\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "theirs")
    git(folder, "checkout", "-q", "main")
    (folder / "one").write_bytes(b"ours\n")
    git(folder, "commit", "-qam", "ours")
    git(folder, "merge", "--no-ff", "other", check=False)


@state
def a_cherry_pick_in_progress(folder: Path) -> None:
    a_merge_in_progress(folder)
    git(folder, "merge", "--abort")
    git(folder, "cherry-pick", "other", check=False)


@state
def a_revert_in_progress(folder: Path) -> None:
    for text in (b"two\n", b"three\n"):
        (folder / "one").write_bytes(text)
        git(folder, "commit", "-qam", "more")
    git(folder, "revert", "--no-edit", "HEAD~1", check=False)


@state
def a_squash_prepared(folder: Path) -> None:
    git(folder, "checkout", "-qb", "other")
    (folder / "side").write_bytes(b"side\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "theirs")
    git(folder, "checkout", "-q", "main")
    git(folder, "merge", "--squash", "-q", "other")


@state
def a_split_index(folder: Path) -> None:
    git(folder, "update-index", "--split-index")
    (folder / "one").write_bytes(b"changed\n")
    git(folder, "add", "one")


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
@pytest.mark.parametrize("name", STATES)
def test_a_state_arrives_bit_for_bit(name: str, object_format: str, tmp_path: Path) -> None:
    folder = repository(tmp_path / "source", object_format=object_format)
    STATES[name](folder)
    before = untouched(folder)
    pieces = Pieces()
    made = capture(folder, None, pieces.put)
    assert untouched(folder) == before
    target = made_from(made, pieces, tmp_path / "target")
    assert seen(target) == seen(folder)
    intend(made, target)
    assert index(target) == index(folder)
    assert git(target, "rev-parse", "-q", "--verify", "HEAD", check=False) == git(
        folder, "rev-parse", "-q", "--verify", "HEAD", check=False
    )
    assert made.repository is not None
    assert (made.repository.branch or b"") == git(folder, "symbolic-ref", "-q", "HEAD", check=False).strip()
    again = capture(folder, made, pieces.put)
    assert again == made, "the same state is the same capture"


def test_what_a_capture_must_leave_alone_is_seen(tmp_path: Path) -> None:
    """The control of the above: a plain `git status` refreshes the index, and that is noticed."""
    folder = repository(tmp_path / "source")
    os.utime(folder / "one", ns=(10**18, 10**18))
    before = untouched(folder)
    capture(folder, None, Pieces().put)
    assert untouched(folder) == before
    git(folder, "status")
    assert untouched(folder) != before


@pytest.mark.parametrize(
    ("name", "kind", "heads"),
    [
        ("a_merge_in_progress", OperationKind.MERGE, "MERGE_HEAD"),
        ("a_cherry_pick_in_progress", OperationKind.CHERRY_PICK, "CHERRY_PICK_HEAD"),
        ("a_revert_in_progress", OperationKind.REVERT, "REVERT_HEAD"),
    ],
)
def test_an_operation_in_progress_is_carried(name: str, kind: OperationKind, heads: str, tmp_path: Path) -> None:
    folder = repository(tmp_path / "source")
    STATES[name](folder)
    pieces = Pieces()
    made = capture(folder, None, pieces.put)
    assert made.repository is not None and made.repository.operation is not None
    assert made.repository.operation.kind is kind
    assert made.repository.operation.no_ff == (kind is OperationKind.MERGE)
    assert (
        b"\n".join(one.hex().encode() for one in made.repository.operation.heads)
        == git(folder, "rev-parse", heads).strip()
    )
    assert made.repository.operation.message == (folder / ".git/MERGE_MSG").read_bytes()
    target = made_from(made, pieces, tmp_path / "target")
    for one in made.repository.operation.heads:
        git(target, "ls-tree", "-r", one.hex())


def _rebase(folder: Path) -> None:
    a_merge_in_progress(folder)
    git(folder, "merge", "--abort")
    git(folder, "rebase", "other", check=False)


def _picks(folder: Path) -> None:
    git(folder, "checkout", "-qb", "other")
    for text in (b"two\n", b"three\n"):
        (folder / "one").write_bytes(text)
        git(folder, "commit", "-qam", "more")
    git(folder, "checkout", "-q", "main")
    (folder / "one").write_bytes(b"ours\n")
    git(folder, "commit", "-qam", "ours")
    git(folder, "cherry-pick", "other~2..other", check=False)


def _bisect(folder: Path) -> None:
    git(folder, "bisect", "start")


@pytest.mark.parametrize(
    ("build", "words"), [(_rebase, "rebase --abort"), (_picks, "cherry-pick --abort"), (_bisect, "bisect reset")]
)
def test_steps_that_may_hold_commands_are_refused_with_the_way_out(build: State, words: str, tmp_path: Path) -> None:
    folder = repository(tmp_path / "source")
    build(folder)
    with pytest.raises(RefusedError, match=words):
        capture(folder, None, Pieces().put)
    git(folder, *words.split())
    capture(folder, None, Pieces().put)


def _why(made: Capture) -> dict[bytes, Reason]:
    return {one.path: one.reason for one in made.left_out}


def test_what_is_left_out_is_said(tmp_path: Path) -> None:
    folder = repository(tmp_path / "source", {".gitignore": b"build/\n*.log\n", "a": b"a"})
    (folder / "build/deep").mkdir(parents=True)
    (folder / "build/deep/x").write_bytes(b"x")
    (folder / "noise.log").write_bytes(b"x")
    (folder / ".env").write_bytes(b"TOKEN=1")
    (folder / "sub").mkdir()
    (folder / "sub/id_ed25519").write_bytes(b"key")
    (folder / "new").mkdir()
    os.mkfifo(folder / "new/pipe")
    device(folder / "new/device")
    with socket.socket(socket.AF_UNIX) as server:
        here = os.getcwd()
        os.chdir(folder / "new")
        server.bind("socket")
        os.chdir(here)
    repository(folder / "nested", {"inner": b"x"})
    (folder / "back\\slash").write_bytes(b"x")
    (folder / "GIT~1").write_bytes(b"x")
    made = capture(folder, None, Pieces().put)
    why = _why(made)
    assert why == {
        b"build/": Reason.IGNORED,
        b"noise.log": Reason.IGNORED,
        b".env": Reason.CREDENTIALS,
        b"sub/id_ed25519": Reason.CREDENTIALS,
        b"new/device": Reason.SPECIAL,
        b"new/pipe": Reason.SPECIAL,
        b"new/socket": Reason.SPECIAL,
        b"nested/": Reason.REPOSITORY,
        b"back\\slash": Reason.NAME,
        b"GIT~1": Reason.NAME,
    }
    assert made.entries == ()
    named = Wanted(named=frozenset({b".env", b"build/deep", b"noise.log"}))
    taken = capture(folder, None, Pieces().put, wanted=named)
    assert [one.path for one in taken.entries] == [b".env", b"build/deep/x", b"noise.log"]
    assert b".env" not in _why(taken)


def test_what_lies_too_deep_for_git_is_said(tmp_path: Path) -> None:
    folder = repository(tmp_path / "source")
    at, depth = os.open(folder, os.O_RDONLY), 25
    for _ in range(depth):
        os.mkdir("x" * 200, dir_fd=at)
        inner = os.open("x" * 200, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = inner
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=at))
    os.close(at)
    made = capture(folder, None, Pieces().put)
    assert set(_why(made).values()) == {Reason.UNREADABLE}


def test_a_staged_credential_file_stays_too(tmp_path: Path) -> None:
    folder = repository(tmp_path / "source")
    (folder / ".env").write_bytes(b"TOKEN=1")
    git(folder, "add", "-A")
    pieces = Pieces()
    made = capture(folder, None, pieces.put)
    assert made.repository is not None and not made.repository.index and not made.entries
    assert b"TOKEN=1" not in b"".join(pieces.values())
    assert _why(made) == {b".env": Reason.CREDENTIALS}


def test_a_tracked_file_that_became_a_pipe_is_gone_and_said(tmp_path: Path) -> None:
    folder = repository(tmp_path / "source")
    (folder / "one").unlink()
    os.mkfifo(folder / "one")
    made = capture(folder, None, Pieces().put)
    assert [(one.path, one.kind) for one in made.entries] == [(b"one", Kind.GONE)]
    assert _why(made) == {b"one": Reason.SPECIAL}


def test_a_file_behind_a_link_is_not_read(tmp_path: Path) -> None:
    folder = repository(tmp_path / "source")
    secret = tmp_path / "elsewhere"
    secret.mkdir()
    (secret / "two").write_bytes(b"secret")
    shutil.rmtree(folder / "sub")
    (folder / "sub").symlink_to(secret)
    pieces = Pieces()
    made = capture(folder, None, pieces.put)
    assert b"secret" not in pieces.values()
    assert {one.path: one.kind for one in made.entries} == {
        b"sub": Kind.SYMLINK,
        b"sub/two": Kind.GONE,
        b"sub/three": Kind.GONE,
    }


def test_a_linked_worktree_and_a_shallow_clone_are_captured(tmp_path: Path) -> None:
    folder = repository(tmp_path / "source")
    (folder / "one").write_bytes(b"second\n")
    git(folder, "commit", "-qam", "two")
    git(folder, "worktree", "add", "-q", "-b", "wt", str(tmp_path / "linked"))
    (tmp_path / "linked/one").write_bytes(b"in the worktree\n")
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{folder}", "shallow")
    for name in ("linked", "shallow"):
        pieces = Pieces()
        made = capture(tmp_path / name, None, pieces.put)
        assert made.repository is not None
        assert bool(made.repository.shallow) == (name == "shallow")
        assert bool(made.repository.roots) == (name == "linked")
        target = made_from(made, pieces, tmp_path / f"{name}-target")
        assert seen(target) == seen(tmp_path / name)
        assert index(target) == index(tmp_path / name)


def test_what_a_linked_worktree_does_is_not_what_the_main_one_does(tmp_path: Path) -> None:
    folder = repository(tmp_path / "source")
    git(folder, "worktree", "add", "-q", "-b", "wt", str(tmp_path / "linked"))
    (tmp_path / "linked/one").write_bytes(b"in the worktree\n")
    git(tmp_path / "linked", "commit", "-qam", "two")
    git(folder, "merge", "-q", "--no-ff", "--no-commit", "wt")
    merging = capture(folder, None, Pieces().put).repository
    linked = capture(tmp_path / "linked", None, Pieces().put).repository
    assert merging is not None and merging.operation is not None and merging.operation.kind is OperationKind.MERGE
    assert linked is not None and linked.operation is None


def test_a_submodule_travels_as_the_commit_it_stands_on(tmp_path: Path) -> None:
    inner = repository(tmp_path / "inner", {"x": b"x"})
    folder = repository(tmp_path / "source")
    git(folder, "submodule", "-q", "add", str(inner), "module")
    git(folder, "commit", "-qam", "module")
    assert not capture(folder, None, Pieces().put).left_out
    (folder / "module/x").write_bytes(b"y")
    made = capture(folder, None, Pieces().put)
    assert made.entries == () and _why(made) == {b"module/": Reason.SUBMODULE}
    git(folder / "module", "commit", "-qam", "own")
    moved = capture(folder, None, Pieces().put)
    head = bytes.fromhex(git(folder / "module", "rev-parse", "HEAD").decode().strip())
    assert [(one.path, one.kind, one.commit) for one in moved.entries] == [(b"module", Kind.GITLINK, head)]


@pytest.mark.parametrize("broken", ["format", "extension", "loop", "loose", "packed"])
def test_a_repository_whose_head_cannot_be_read_is_not_taken_for_one_without_a_commit(
    tmp_path: Path, broken: str
) -> None:
    folder = repository(tmp_path / "source")
    if broken == "format":
        git(folder, "config", "core.repositoryformatversion", "99")
    elif broken == "extension":
        git(folder, "config", "core.repositoryformatversion", "1")
        git(folder, "config", "extensions.unheardOf", "true")
    elif broken == "loop":
        (folder / ".git/refs/heads/main").write_text("ref: refs/heads/other\n")
        (folder / ".git/refs/heads/other").write_text("ref: refs/heads/main\n")
    elif broken == "loose":
        (folder / ".git/refs/heads/main").write_text("00" * 20 + "\n")
    else:
        (folder / ".git/refs/heads/main").unlink()
        (folder / ".git/packed-refs").write_text(f"{'12' * 20} refs/heads/main\n")
    with pytest.raises(RefusedError, match="no commit that can be read"):
        capture(folder, None, Pieces().put)


def test_a_bare_repository_and_a_broken_pointer_are_refused(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", "bare")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/.git").write_text("gitdir: /nowhere\n")
    folder = repository(tmp_path / "source")
    for place in (tmp_path / "bare", tmp_path / "broken", folder / ".git"):
        with pytest.raises(RefusedError):
            capture(place, None, Pieces().put)


def test_a_folder_of_a_repository_stands_for_all_of_it(tmp_path: Path) -> None:
    folder = repository(tmp_path / "source")
    (folder / "one").write_bytes(b"changed\n")
    assert capture(folder / "sub", None, Pieces().put) == capture(folder, None, Pieces().put)


def test_commits_that_the_target_has_do_not_travel(tmp_path: Path) -> None:
    folder = repository(tmp_path / "source", {"large": os.urandom(300_000), "one": b"1\n"})
    known = bytes.fromhex(git(folder, "rev-parse", "HEAD").decode().strip())
    (folder / "one").write_bytes(b"2\n")
    git(folder, "commit", "-qam", "two")
    whole, thin = Pieces(), Pieces()
    made = capture(folder, None, whole.put)
    assert made.repository is not None and made.repository.history.shallow
    made = capture(folder, None, thin.put, wanted=Wanted(known=frozenset({known, b"x" * 20})))
    assert made.repository is not None
    assert made.repository.history.assumed == (known,) and not made.repository.history.shallow
    assert sum(map(len, thin.values())) < 2_000 < 300_000 < sum(map(len, whole.values()))
    made_from(made, thin, tmp_path / "target", origin=folder)
    nothing = capture(
        folder,
        None,
        Pieces().put,
        wanted=Wanted(known=frozenset({bytes.fromhex(git(folder, "rev-parse", "HEAD").decode())})),
    )
    assert nothing.repository is not None and not nothing.repository.history.packs


def test_what_the_remotes_have_is_published(tmp_path: Path) -> None:
    origin = repository(tmp_path / "origin")
    git(tmp_path, "clone", "-q", str(origin), "source")
    folder = tmp_path / "source"
    (folder / "one").write_bytes(b"2\n")
    git(folder, "commit", "-qam", "mine")
    pieces = Pieces()
    made = capture(folder, None, pieces.put, wanted=Wanted(published=True))
    assert made.repository is not None and len(made.repository.history.assumed) == 1
    target = made_from(made, pieces, tmp_path / "target", origin=origin)
    assert seen(target) == seen(folder)


def test_a_new_commit_adds_a_pack_and_the_old_ones_stay(tmp_path: Path) -> None:
    folder = repository(tmp_path / "source", {"large": os.urandom(300_000), "one": b"1\n"})
    pieces = Pieces()
    last = capture(folder, None, pieces.put)
    for n in range(3):
        (folder / "one").write_bytes(b"%d\n" % n)
        git(folder, "commit", "-qam", "more")
        pieces.puts.clear()
        made = capture(folder, last, pieces.put)
        assert made.repository is not None and last.repository is not None
        assert made.repository.history.packs[:-1] == last.repository.history.packs
        assert sum(len(pieces[one]) for one in pieces.puts) < 2_000
        last = made
    target = made_from(last, pieces, tmp_path / "target")
    assert git(target, "rev-list", "--count", "HEAD").strip() == b"4"
    git(folder, "checkout", "-q", "HEAD~2")
    back = capture(folder, last, pieces.put)
    assert seen(made_from(back, pieces, tmp_path / "back")) == seen(folder)
    git(folder, "checkout", "-q", "--orphan", "other")
    git(folder, "commit", "-qm", "unrelated")
    assert seen(made_from(capture(folder, back, pieces.put), pieces, tmp_path / "other")) == seen(folder)


def test_a_merge_of_what_branched_off_before_the_cut_leaves_no_hole_in_the_history(tmp_path: Path) -> None:
    """What is new may rest on commits older than those that the target has of a history that is cut."""
    folder = repository(tmp_path / "source")
    git(folder, "branch", "side")
    (folder / "one").write_bytes(b"main\n")
    git(folder, "commit", "-qam", "two")
    pieces = Pieces()
    last = capture(folder, None, pieces.put)
    git(folder, "checkout", "-q", "side")
    (folder / "four").write_bytes(b"side\n")
    git(folder, "commit", "-qam", "side")
    git(folder, "checkout", "-q", "main")
    git(folder, "merge", "-q", "--no-edit", "side")
    made = capture(folder, last, pieces.put)
    assert seen(made_from(made, pieces, tmp_path / "target")) == seen(folder)


def test_remotes_are_hints_without_credentials(tmp_path: Path) -> None:
    folder = repository(tmp_path / "source")
    for name, url in {"a": "https://alice:secret@example.test/x.git", "b": "git@example.test:x.git",
                      "c": "https://example.test/glpat-abcdefghijklmnopqrstu/x"}.items():  # fmt: skip
        git(folder, "remote", "add", name, url)
    made = capture(folder, None, Pieces().put)
    assert made.repository is not None
    urls = [one.url for one in made.repository.remotes]
    assert urls[:2] == [b"https://example.test/x.git", b"git@example.test:x.git"]
    assert b"glpat" not in urls[2]


def test_a_file_that_changes_while_it_is_read_is_never_half_of_it(tmp_path: Path) -> None:
    folder = repository(tmp_path / "source")
    (folder / "growing").write_bytes(b"a" * 3_000_000)
    pieces = Pieces()
    writes = 0

    def put(raw: bytes) -> bytes:
        nonlocal writes
        if raw.startswith((b"a", b"b")) and writes < 2:
            writes += 1
            (folder / "growing").write_bytes(b"b" * (3_000_000 + writes))
        return pieces.put(raw)

    made = capture(folder, None, put)  # type: ignore[arg-type]
    (entry,) = made.entries
    assert entry.content is not None and pieces.content(entry.content) == b"b" * 3_000_002


def test_a_file_rewritten_at_the_same_length_while_it_is_read_is_no_mixture(tmp_path: Path) -> None:
    folder = repository(tmp_path / "source")
    (folder / "mixed").write_bytes(b"a" * 3_000_000)
    pieces = Pieces()
    rewritten = False

    def put(raw: bytes) -> bytes:
        nonlocal rewritten
        if raw.startswith(b"a") and not rewritten:
            rewritten = True
            (folder / "mixed").write_bytes(b"b" * 3_000_000)
        return pieces.put(raw)

    (entry,) = capture(folder, None, put).entries  # type: ignore[arg-type]
    assert entry.content is not None and pieces.content(entry.content) == b"b" * 3_000_000


def test_a_file_that_never_stops_changing_is_said_and_a_tracked_one_refused(tmp_path: Path) -> None:
    folder = repository(tmp_path / "source")

    def scribbling(name: str) -> Callable[[bytes], bytes]:
        pieces = Pieces()
        count = 0

        def put(raw: bytes) -> bytes:
            nonlocal count
            count += 1
            if raw.startswith(b"a"):
                (folder / name).write_bytes(b"a" * (count + 100))
            return pieces.put(raw)

        return put

    (folder / "log").write_bytes(b"a" * 50)
    made = capture(folder, None, scribbling("log"))  # type: ignore[arg-type]
    assert _why(made) == {b"log": Reason.CHANGING} and not made.entries
    (folder / "log").unlink()
    (folder / "one").write_bytes(b"a" * 50)
    with pytest.raises(RefusedError, match="keeps changing"):
        capture(folder, None, scribbling("one"))  # type: ignore[arg-type]


def test_a_second_capture_reads_only_what_changed(tmp_path: Path) -> None:
    folder = repository(tmp_path / "source")
    for n in range(20):
        (folder / f"new{n}").write_bytes(b"%d" % n)
        os.utime(folder / f"new{n}", ns=(10**18, 10**18))
    pieces, memory = Pieces(), Memory()
    later = capture_later(folder, None, pieces, memory)
    pieces.puts.clear()
    (folder / "new3").write_bytes(b"other")
    made = capture_later(folder, later, pieces, memory)
    assert [pieces[one] for one in pieces.puts] == [b"other"]
    assert len(made.entries) == 20


def capture_later(folder: Path, before: Capture | None, pieces: Pieces, memory: Memory) -> Capture:
    """A capture by a clock that is ten seconds ahead: what was just written has settled."""
    import time

    real = time.time_ns
    time.time_ns = lambda: real() + 10**10
    try:
        return capture(folder, before, pieces.put, memory=memory)
    finally:
        time.time_ns = real


def test_skip_worktree_is_a_flag_that_travels(tmp_path: Path) -> None:
    folder = repository(tmp_path / "source")
    a_sparse_checkout(folder)
    made = capture(folder, None, Pieces().put)
    assert made.repository is not None and made.repository.sparse is not None and made.repository.sparse.cone
    assert {one.path for one in made.repository.index if one.flags & Flag.SKIP_WORKTREE} >= {b"sub/three"}
