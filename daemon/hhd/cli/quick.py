"""The plain forms of `hhd ls`, `transfer`, `capsule step` and `run`, read without click, whose import takes as long.

Only what is beyond doubt is read here; anything else, a mistake or a wish for help included, is left to click, where
these commands are defined.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

_OPTIONS = {"step": {"--slice-ms", "--slice-checks", "--reply-file", "--module"}, "run": {"--module"}}


def parse(words: list[str]) -> Callable[[], int] | None:
    """Return the call that `words` ask for, None where click is to read them."""
    if words[0] == "ls":
        return _ls(words[1:])
    if words[0] == "transfer":
        return _transfer(words[1:])
    if len(words) < 3 or words[0] != "capsule" or words[1] not in _OPTIONS:
        return None
    files: list[str] = []
    given: dict[str, str] = {}
    as_json = False
    rest = iter(words[2:])
    for word in rest:
        if word == "--json":
            as_json = True
        elif not word.startswith("-"):
            files.append(word)
        elif word in _OPTIONS[words[1]] and word not in given and not (value := next(rest, "-")).startswith("-"):
            given[word] = value
        else:
            return None
    numbers = [given[name] for name in ("--slice-ms", "--slice-checks") if name in given]
    plain = all(number.isascii() and number.isdecimal() and len(number) < 16 and int(number) for number in numbers)
    if len(files) != 1 or not all((*files, *given.values(), plain)):
        return None
    return lambda: _call(words[1], Path(files[0]), given, as_json)


def _ls(words: list[str]) -> Callable[[], int] | None:
    query = [word for word in words if not word.startswith("-")]
    if len(query) > 1 or not {word for word in words if word.startswith("-")} <= {"--all", "--json", "--devices"}:
        return None
    from hhd.cli import lines

    as_json, with_archived, by_device = "--json" in words, "--all" in words, "--devices" in words
    return lambda: lines.ls(
        query[0] if query else "", with_archived=with_archived, by_device=by_device, as_json=as_json
    )


def _transfer(words: list[str]) -> Callable[[], int] | None:
    named, options = [word for word in words if not word.startswith("-")], {word for word in words if word[:1] == "-"}
    if len(named) != 2 or not all(named) or not options <= {"--json", "--cancel-running", "--dry-run"}:
        return None
    from hhd.cli import handing

    cancel_running, dry_run, as_json = "--cancel-running" in options, "--dry-run" in options, "--json" in options
    return lambda: handing.hand(
        *named, cancel_running=cancel_running, dry_run=dry_run, deadline_seconds=None, as_json=as_json
    )


def _call(verb: str, file: Path, given: dict[str, str], as_json: bool) -> int:
    from hhd.cli import going
    from hhd.cli.capsule_report import advance, step_call

    module = Path(given["--module"]) if "--module" in given else None
    if verb == "run":
        return going.run(file, module, None, None, as_json)
    checks = int(given["--slice-checks"]) if "--slice-checks" in given else None
    slice_ms = float(given["--slice-ms"]) if "--slice-ms" in given else None
    reply = Path(given["--reply-file"]) if "--reply-file" in given else None
    return advance(as_json, lambda: step_call(file, slice_ms, checks, reply, module))
