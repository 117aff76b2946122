"""The verbs on capsules: cut anywhere, answered, failed, made without a module, and fed with lies."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any

import pytest
from tests.node import guests
from tests.protocol import forge, hostile

from hhd.base.errors import RefusedError, RolledBackError
from hhd.node import capsule_file, capsules
from hhd.node.capsules import Report
from hhd.runtime.outcomes import StopFlag
from hhd_protocol.packed import pack

UNCUT: dict[str, list[bytes]] = {"asks": [b"one", b"two"], "mixed": [], "spin": []}
ARGS = {"spin": {"iterations": "30000"}}


def new(folder: Path, program: str, name: str = "capsule.hhd", **given: Any) -> Path:
    """A capsule of a guest program."""
    module, out = folder / f"{program}.wasm", folder / name
    module.write_bytes(guests.wasm(program))
    options: dict[str, Any] = {"args": ARGS.get(program, {}), "embed": True, "force": False, **given}
    capsules.new(str(module), out, **options)
    return out


def step(path: Path, checks: int | None = None, reply: bytes | None = None, module: Path | None = None) -> Report:
    return capsules.step(path, checks=checks, reply=reply, module=module, stop=StopFlag())


def to_the_end(path: Path, replies: list[bytes], rng: random.Random | None) -> tuple[bytes, dict[int, str]]:
    """Step until finished; return the transcript and the content digests by position."""
    replies, seen = list(replies), {}
    for _ in range(2000):
        report = step(path, checks=rng.randint(1, rng.choice((3, 300, 1500))) if rng else None)
        while report.status == "waiting":
            report = step(path, reply=replies.pop(0), checks=rng.choice((1, 50, 5000)) if rng else None)
        seen[report.capsule.checks] = report.capsule.content_digest().hex()
        if report.status == "finished":
            return b"".join(capsules.transcript(path)), seen
    raise AssertionError("it does not end")


@pytest.mark.parametrize("program", UNCUT)
def test_cut_at_random_points_it_says_the_same_as_uncut(tmp_path: Path, program: str) -> None:
    whole, ends = to_the_end(new(tmp_path, program), UNCUT[program], None)
    assert whole
    cut, seen = to_the_end(new(tmp_path, program, "cut.hhd"), UNCUT[program], random.Random(2))
    assert cut == whole
    assert len(seen) >= 5
    end = max(ends)
    assert seen[end] == ends[end], "the content depends on the position alone"


def test_the_same_position_has_the_same_content_however_it_was_reached(tmp_path: Path) -> None:
    one, other = new(tmp_path, "mixed", "one.hhd"), new(tmp_path, "mixed", "other.hhd")
    for checks in (1, 2, 30, 400):
        step(one, checks=checks)
    report = step(other, checks=433)
    found = capsules.info(one).capsule
    assert (found.checks, found.content_digest()) == (433, report.capsule.content_digest())
    assert found.line != report.capsule.line


def test_a_pause_that_would_fall_into_too_deep_a_recursion_comes_a_little_later(tmp_path: Path) -> None:
    path = new(tmp_path, "plunges")
    step(path, checks=100)
    report = step(path, checks=30_000)
    assert report.status == "interrupted"
    assert 40_001 <= report.capsule.checks < 200_000
    assert to_the_end(path, [], None)[0] == (40_000 * 40_001 // 2).to_bytes(8, "little")


def test_a_program_that_can_never_have_the_memory_it_asks_for_is_refused_before_a_file_is_made(tmp_path: Path) -> None:
    for pages in ('"memory") 60000', '"memory") 2 3'):
        module = tmp_path / "large.wasm"
        text = guests.plain_text("lies").replace('"memory") 2', pages)
        module.write_bytes(guests.instrumented(text))
        with pytest.raises(RefusedError, match="memory"):
            capsules.new(str(module), tmp_path / "large.hhd", args={}, embed=True, force=False)
        assert not (tmp_path / "large.hhd").exists()


def test_each_step_draws_a_new_line(tmp_path: Path) -> None:
    path = new(tmp_path, "spin")
    assert len({step(path, checks=10).capsule.line for _ in range(5)}) == 5


def test_a_waiting_capsule_is_reported_and_left_as_it_is_until_there_is_a_reply(tmp_path: Path) -> None:
    path = new(tmp_path, "asks")
    report = step(path)
    assert report.fields()["effect"] == {"index": 0, "op": "tool", "state": "asked", "request": "first"}
    before = path.read_bytes()
    assert step(path).status == "waiting" and path.read_bytes() == before
    assert capsules.run(path, stop=StopFlag()).status == "waiting" and path.read_bytes() == before
    report = step(path, reply=b"\xff reply")
    assert report.status == "waiting" and report.capsule.journal.settled == 1
    assert step(path, reply=b"!").status == "finished"
    assert b"".join(capsules.transcript(path)) == b"first\xff reply!"
    before = path.read_bytes()
    assert step(path).status == "finished" and path.read_bytes() == before
    with pytest.raises(RefusedError, match="waits for no effect"):
        step(path, reply=b"late")
    assert path.read_bytes() == before


def test_a_reply_before_the_effect_is_refused_and_the_file_unchanged(tmp_path: Path) -> None:
    path = new(tmp_path, "asks")
    before = path.read_bytes()
    with pytest.raises(RefusedError, match="waits for no effect"):
        step(path, reply=b"early")
    assert path.read_bytes() == before


def test_run_goes_to_the_end_and_a_set_flag_pauses_it(tmp_path: Path) -> None:
    path = new(tmp_path, "spin")
    stop = StopFlag()
    stop.set()
    assert capsules.run(path, stop=stop).status == "interrupted"
    assert capsules.run(path, stop=StopFlag()).status == "finished"


@pytest.mark.parametrize("program", ["traps", "lies", "deep"])
def test_a_program_that_fails_leaves_the_file_as_it_was(tmp_path: Path, program: str) -> None:
    path = new(tmp_path, program)
    if program == "traps":
        assert step(path, checks=100).status == "interrupted"
    before = path.read_bytes()
    for act in (step, lambda each: capsules.run(each, stop=StopFlag())):
        with pytest.raises(RolledBackError, match=r"is as it was\.$"):
            act(path)
        assert path.read_bytes() == before
    assert not list(tmp_path.glob(".*"))


def test_without_its_module_it_is_found_among_ours_or_given(tmp_path: Path) -> None:
    path = new(tmp_path, "spin", embed=False)
    assert step(path, checks=10).checks == 10, "spin comes with hhd"
    path = new(tmp_path, "mixed", "mixed.hhd", embed=False)
    assert path.stat().st_size < 1000
    before = path.read_bytes()
    with pytest.raises(RefusedError, match="--module"):
        step(path, checks=10)
    with pytest.raises(RefusedError, match="not the one"):
        new(tmp_path, "paints", "other.hhd")
        step(path, checks=10, module=tmp_path / "paints.wasm")
    with pytest.raises(RefusedError, match="cannot be read"):
        step(path, checks=10, module=tmp_path / "nowhere.wasm")
    assert path.read_bytes() == before
    assert step(path, checks=10, module=tmp_path / "mixed.wasm").checks == 10


def test_a_plain_module_is_made_pausable_and_others_are_refused(tmp_path: Path) -> None:
    plain, out = tmp_path / "plain.wasm", tmp_path / "capsule.hhd"
    plain.write_bytes(guests.plain("mixed"))
    capsules.new(str(plain), out, args={}, embed=True, force=False)
    assert step(out, checks=5).checks == 5
    for name, raw in {
        "text": b"hello",
        "empty": b"",
        "cut": guests.plain("mixed")[:-9],
        "head": b"\0asm\1\0\0\0",
    }.items():
        path, none = tmp_path / f"{name}.wasm", tmp_path / f"{name}.hhd"
        path.write_bytes(raw)
        with pytest.raises(RefusedError):
            capsules.new(str(path), none, args={}, embed=True, force=False)
        assert not none.exists()
    with pytest.raises(RefusedError, match="no program"):
        capsules.new("nonsense", out, args={}, embed=True, force=True)


def test_a_fork_goes_its_own_way_and_overwrites_nothing(tmp_path: Path) -> None:
    path, fork = new(tmp_path, "asks"), tmp_path / "fork.hhd"
    step(path)
    capsules.fork(path, fork)
    assert fork.read_bytes() == path.read_bytes() and fork.stat().st_mode & 0o777 == 0o600
    with pytest.raises(RefusedError, match="exists"):
        capsules.fork(path, fork)
    assert step(path, reply=b"one").capsule.line != step(fork, reply=b"another").capsule.line
    assert [b"".join(capsules.transcript(each)) for each in (path, fork)] == [b"firstone", b"firstanother"]


# Lies that only the module tells.


def waiting(folder: Path) -> tuple[Path, dict[int, Any], list[bytes]]:
    """A capsule of a real program that waits for its first effect, taken apart."""
    path = new(folder, "asks")
    step(path)
    return path, *forge.taken_apart(path.read_bytes())


def _swap_module(header: dict[int, Any], pieces: list[bytes]) -> None:
    made = pack(guests.wasm("mixed"))
    header[2], header[16], pieces[0] = [made.digest, made.raw_bytes], len(made.stored), bytes(made.stored)


def _not_a_module(header: dict[int, Any], pieces: list[bytes]) -> None:
    made = pack(b"\0asm\1\0\0\0")
    header[2], header[16], pieces[0] = [made.digest, made.raw_bytes], len(made.stored), bytes(made.stored)


AGAINST_THE_MODULE: dict[str, hostile.Change] = {
    "a global that the module has not": lambda header, pieces: header[4][3].update(more=0),
    "no globals": hostile.set_at(4, 3, to={}),
    "a 32-bit global of 64 bits": hostile.set_at(4, 3, "hhd_countdown", to=2**32),
    "a memory smaller than at the start": hostile.set_at(4, 1, to=65536),
    "a memory larger than its limit": hostile.set_at(4, 1, to=2**30),
    "an unwound stack of all its room": hostile.set_at(4, 2, to=262144),
    "another door": hostile.set_at(4, 0, to="memory"),
    "a module without anything": _not_a_module,
}


@pytest.mark.parametrize("lie", AGAINST_THE_MODULE)
def test_a_capsule_that_cannot_belong_to_its_module_is_refused(tmp_path: Path, lie: str) -> None:
    path, header, pieces = waiting(tmp_path)
    path.write_bytes(forge.put_together(header, pieces))
    AGAINST_THE_MODULE[lie](header, pieces)
    bad = tmp_path / "bad.hhd"
    bad.write_bytes(before := forge.put_together(header, pieces))
    with pytest.raises(RefusedError):
        step(bad, reply=b"reply")
    assert bad.read_bytes() == before
    assert step(path, reply=b"reply").status == "waiting", "the one that does not lie is taken"


def _outcome(path: Path) -> str:
    before = path.read_bytes()
    try:
        return step(path, reply=b"reply", checks=20_000).status
    except (RefusedError, RolledBackError):
        assert path.read_bytes() == before
        return "failed"


def test_another_program_of_the_same_shape_fails_or_goes_on_inside_its_own_memory(tmp_path: Path) -> None:
    path, header, pieces = waiting(tmp_path)
    _swap_module(header, pieces)
    path.write_bytes(forge.put_together(header, pieces))
    _outcome(path)
    capsule_file.read(path)


@pytest.mark.parametrize("seeds", [12, pytest.param(400, marks=pytest.mark.long)])
def test_a_forged_stack_fails_or_goes_on_and_never_harms_the_host(tmp_path: Path, seeds: int) -> None:
    """What the unwound stack says is the guest's own business: it can reach nothing but the guest's memory."""
    path, header, pieces = waiting(tmp_path)
    pages = capsules.info(path).capsule
    assert pages.execution is not None
    snapshot = pages.execution.snapshot()
    joined = bytearray(b"".join(snapshot.pages))
    base = 2 * 65536 // 4096  # The stack of a pause begins behind the two wasm pages that these programs have.
    where = [at for at, number in enumerate(snapshot.page_numbers) if number >= base]
    assert where
    used = snapshot.asyncify_stack_bytes
    outcomes = set()
    for seed in range(seeds):
        rng = random.Random(seed)
        forged = bytearray(joined)
        start = where[0] * 4096
        if seed % 3 == 0:
            forged[start : start + 8] = struct.pack("<II", rng.getrandbits(32), rng.getrandbits(32))
        for _ in range(rng.randint(1, 6)):
            at = start + 16 + 4 * rng.randrange(max(1, used // 4))
            forged[at : at + 4] = struct.pack("<I", rng.choice((rng.getrandbits(32), rng.getrandbits(3), 2**32 - 1)))
        liar, its = dict(header), list(pieces)
        made = pack(bytes(forged))
        its[-1] = bytes(made.stored)
        liar[4] = {**header[4], 5: [made.value()], 2: rng.choice((used, used, 16, 4, 262000))}
        bad = tmp_path / "forged.hhd"
        bad.write_bytes(forge.put_together(liar, its))
        outcomes.add(_outcome(bad))
        capsule_file.read(bad)
    assert "failed" in outcomes
