"""`make bench`: runs every `bench_*.py` beside this file, or those named as arguments."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

names = sys.argv[1:] or sorted(path.stem[len("bench_") :] for path in Path(__file__).parent.glob("bench_*.py"))
for name in names:
    importlib.import_module(f"tests.bench.bench_{name}").main()
