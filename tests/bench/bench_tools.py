"""What a tool call costs beside the bare process: bash with and without sandbox, files, searches."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.bench.harness import paired, report

from hhd.effects.cancel import Cancel
from hhd.effects.confine import Workspace
from hhd.effects.policy import Policy
from hhd.effects.sandbox import Sandbox, detect
from hhd.effects.tools.table import TOOLS
from hhd.effects.tools.tool import Context, Subject

COMMAND = ".venv/bin/python -m tests.bench.bench_tools"
PLAIN = Sandbox(program=None, reason="", network=True, hidden=())


def bare(command: str, folder: Path) -> Callable[[], object]:
    """`subprocess` running the same command by the same bash, output collected: the least a tool could do."""
    words = ["/bin/bash", "--noprofile", "--norc", "-c", command]
    return lambda: subprocess.run(
        words, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )


def main() -> None:
    """Measure, in pairs, warm."""
    with tempfile.TemporaryDirectory() as name, Workspace(Path(name)) as workspace:
        folder = Path(name)
        walls = detect()
        cancel = Cancel()

        def tool(kind: str, sandbox: Sandbox = PLAIN, **given: object) -> Callable[[], object]:
            environment = {"PATH": os.environ["PATH"]}
            context = Context(workspace=workspace, sandbox=sandbox, environment=environment, cancel=cancel)
            found = TOOLS[kind]
            asked = found.input(**given)
            return lambda: found.act(asked, context)

        for label, command, n in (("true", "true", 100), ("1 MB of output", "head -c 1000000 /dev/zero", 40)):
            for where, sandbox in (("without sandbox", PLAIN), ("in the sandbox", walls)):
                if sandbox is walls and walls.program is None:
                    continue
                measured = paired(tool("bash", sandbox, command=command), bare(command, folder), n, warmup=3)
                report(f"bash tool, {label}, {where}, against bare subprocess", COMMAND, "warm", **measured)
        if walls.program is not None:
            whole = walls.wrap(["/bin/bash", "--noprofile", "--norc", "-c", "true"], folder)

            def alone() -> object:
                return subprocess.run(whole, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False)

            measured = paired(tool("bash", walls, command="true"), alone, 100, warmup=3)
            report("bash tool in the sandbox against bubblewrap alone", COMMAND, "warm", **measured)

        text = "".join(f"line {number} of a source file\n" for number in range(1000))
        file = folder / "file.py"
        file.write_text(text)
        measured = paired(tool("read", path="file.py"), lambda: file.read_text(), 300, warmup=5)
        report("read tool, 1000 lines, against open().read()", COMMAND, "warm", **measured)

        def plain_write() -> None:
            fd = os.open(folder / "plain.tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.write(fd, text.encode())
            os.fsync(fd)
            os.close(fd)
            os.rename(folder / "plain.tmp", folder / "plain")

        measured = paired(tool("write", path="other.py", content=text), plain_write, 100, warmup=5)
        report("write tool, durable, against temp + fsync + rename", COMMAND, "warm", **measured)

        for number in range(2000):
            place = folder / f"src/p{number % 40}/m{number}.py"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text[:4000] + f"needle {number}\n")
        grep = bare("grep -rn 'needle 19' . | sort", folder)
        measured = paired(tool("grep", pattern="needle 19", limit=1000), grep, 15, warmup=2)
        report("grep tool, 2000 files of 4 KB, against grep -rn", COMMAND, "warm", **measured)
        measured = paired(tool("glob", pattern="**/*7.py"), bare("find . -name '*7.py' | sort", folder), 30, warmup=2)
        report("glob tool, 2000 files, against find", COMMAND, "warm", **measured)

        rules = {"allow": ["bash(npm test *)", "bash(git status)", "write(src/**)"], "deny": ["bash(git push *)"]}
        policy = Policy.from_table(rules)
        subject = Subject(tool="bash", command="npm test -- --grep 'a long name of a test' --reporter dot")
        measured = paired(lambda: policy.judge(subject), lambda: None, 2000, warmup=10)
        report("policy, one command against four rules", COMMAND, "warm", n=2000, median_ms=measured["median_ms"])
        cancel.close()


if __name__ == "__main__":
    main()
