"""What the pause of a handoff takes for the folder at the source: the look, or a capture anew, against `git status`.

The look stands for a capture where nothing differs; where something does, or the repository is too large for a look, it
is captured again with what the capture before left. Until the look came, a capture not older than two seconds stood
unseen, which took nothing and left behind what was written after it.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from pathlib import Path

from tests.bench.harness import own_folders, paired, process, report

from hhd.workspace.appearance import appearance
from hhd.workspace.capture import capture
from hhd.workspace.memory import Memory
from hhd_protocol.crypto import content_id
from hhd_protocol.ids import PageId

COMMAND = "python -m tests.bench pause_look"
ROUNDS = {10: 20, 3_000: 20, 100_000: 5}
"""By the number of files."""
SETTLE_SECONDS = 2.5
"""Until a file that was just written is told by a look, and read no more by a capture."""


def _put(raw: bytes) -> PageId:
    return content_id(bytes(32), b"piece", raw)


def _repository(folder: Path, files: int) -> None:
    for number in range(files):
        file = folder / f"d{number // 1000}" / f"f{number}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{number}\n")
    for words in (
        ["init", "-q"],
        ["add", "-A"],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "many"],
    ):
        subprocess.run(["git", *words], cwd=folder, check=True, stdin=subprocess.DEVNULL)
    (folder / "notes").write_text("by hand\n")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="hhd-bench-pause-look-") as name:
        own_folders(Path(name) / "own")
        for files, rounds in ROUNDS.items():
            folder = Path(name) / str(files)
            _repository(folder, files)
            time.sleep(SETTLE_SECONDS)
            status = process("git", "-C", str(folder), "status", "--porcelain")
            memory = Memory()
            before = capture(folder, None, _put, memory=memory)
            if appearance(folder) is not None:
                measured = paired(lambda: appearance(folder), status, rounds)  # noqa: B023
                report(f"a look in the pause, {files} files, against git status", COMMAND, "warm", **measured)
            measured = paired(lambda: capture(folder, before, _put, memory=memory), status, rounds)  # noqa: B023
            report(f"a capture in the pause, {files} files, against git status", COMMAND, "warm", **measured)


if __name__ == "__main__":
    main()
