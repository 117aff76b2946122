"""The one question before something that cannot be taken back: whoever holds standard input says yes, or it is a no."""

from __future__ import annotations

import sys


def agreed(question: str, *, as_json: bool) -> bool:
    """Ask `question` and say whether the answer was a yes; with --json nobody is asked, and nobody agreed."""
    if as_json:
        return False
    from hhd.cli.keyboard import Keyboard
    from hhd.cli.paint import Paper

    answer = Keyboard(fd=0, paper=Paper.of(sys.stdout)).line(f"{question} y = yes, anything else = no: ")
    return answer is not None and answer.strip().lower() in ("y", "yes")
