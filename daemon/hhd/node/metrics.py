"""What is measured of the daemon, and its text in the format that Prometheus reads.

No label names a session, a folder or anything a person wrote: labels are words of ours.
"""

from __future__ import annotations

import contextlib
import os
import resource
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One measure: its `kind` is `gauge`, or `counter` for what only grows; a sample for each set of labels."""

    name: str
    kind: str
    meaning: str
    samples: tuple[tuple[Mapping[str, str], float], ...]


def gauge(name: str, meaning: str, value: float) -> Metric:
    """Return a measure that goes up and down."""
    return Metric(name=name, kind="gauge", meaning=meaning, samples=(({}, value),))


def counter(name: str, meaning: str, value: float) -> Metric:
    """Return a measure that only grows."""
    return Metric(name=name, kind="counter", meaning=meaning, samples=(({}, value),))


def text(metrics: Iterable[Metric]) -> str:
    """Return the measures in Prometheus' text format, version 0.0.4."""
    lines: list[str] = []
    for metric in metrics:
        lines += [f"# HELP {metric.name} {_meaning(metric.meaning)}", f"# TYPE {metric.name} {metric.kind}"]
        for labels, value in metric.samples:
            marks = ",".join(f'{name}="{_label(one)}"' for name, one in labels.items())
            lines.append(f"{metric.name}{{{marks}}} {_number(value)}" if marks else f"{metric.name} {_number(value)}")
    return "".join(f"{line}\n" for line in lines)


@dataclass
class Asked:
    """What was asked of the daemon: how often each verb ended how, and how long they took together."""

    ended: dict[tuple[str, str], int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def count(self, verb: str, how: str, seconds: float) -> None:
        """Count one that ended."""
        self.ended[verb, how] = self.ended.get((verb, how), 0) + 1
        self.seconds[verb] = self.seconds.get(verb, 0.0) + seconds

    def metrics(self) -> list[Metric]:
        """Return it as measures."""
        ended = tuple(({"verb": verb, "how": how}, float(count)) for (verb, how), count in sorted(self.ended.items()))
        took = tuple(({"verb": verb}, seconds) for verb, seconds in sorted(self.seconds.items()))
        return [
            Metric(name="hhd_requests_total", kind="counter", meaning="Requests that ended.", samples=ended),
            Metric(name="hhd_request_seconds_total", kind="counter", meaning="Time they took.", samples=took),
        ]


def of_process(since: float) -> list[Metric]:
    """Return what the system says of this process, which has been there since `since` (seconds of the epoch)."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    found = [
        gauge("process_start_time_seconds", "When the daemon started, in seconds of the epoch.", since),
        counter("process_cpu_seconds_total", "Processor time.", used.ru_utime + used.ru_stime),
        gauge("process_resident_memory_bytes", "Memory in use.", _resident_bytes(used)),
    ]
    with contextlib.suppress(OSError):
        found.append(gauge("process_open_fds", "Open descriptors.", len(os.listdir("/dev/fd")) - 1))
    return found


def of_disk(folder: Path) -> list[Metric]:
    """Return how full the disk is that `folder` is on."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return []
    return [
        gauge("hhd_disk_free_bytes", "Left on the disk of hhd's data.", found.f_bavail * found.f_frsize),
        gauge("hhd_disk_free_inodes", "Files that still fit it; 0 where it has no limit.", found.f_favail),
    ]


def _resident_bytes(used: resource.struct_rusage) -> int:
    with contextlib.suppress(OSError, ValueError, IndexError), open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)  # The most that it ever was.


def _meaning(words: str) -> str:
    return words.replace("\\", "\\\\").replace("\n", "\\n")


def _label(words: str) -> str:
    return _meaning(words).replace('"', '\\"')


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 2**53 else repr(value)
