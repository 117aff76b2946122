"""What all tests share: hhd's folders in a temporary place, and no silent skips in CI."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from tests import compiled

# How long an example takes says how busy the machine is, and nothing of what is under test.
settings.register_profile(
    "any-machine",
    parent=settings.get_profile(settings.get_current_profile_name()),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("any-machine")

# A shell hands an ignored Ctrl-C down to what it runs in the background, and so to every program that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("CONFIG", "DATA", "CACHE", "WORKSPACES"):
        monkeypatch.setenv(f"HHD_{kind}_HOME", str(tmp_path / f"hhd-{kind.lower()}"))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)


@pytest.fixture(scope="session")
def compiled_modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder of one process, in which the agent is compiled."""
    folder = tmp_path_factory.mktemp("compiled")
    compiled.warm(folder)
    return folder


@pytest.fixture
def told(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Print a line below the results, whoever runs the test: a figure that a test only finds out by running."""
    return lambda line: request.node.user_properties.append(("told", line))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = terminalreporter.stats.get("passed", [])
    lines = [line for report in reports for name, line in report.user_properties if name == "told"]
    if lines:
        terminalreporter.section("told by tests")
        for line in lines:
            terminalreporter.write_line(line)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`make long` reads only the files in which the mark of its tests stands."""
    for path in {item.path for item in items if item.get_closest_marker("long")}:
        assert "mark.long" in path.read_text(), f"{path} has a long test that `make long` would not find"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: object) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and os.environ.get("HHD_NO_SKIP") and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped where nothing may be: {report.longrepr}"
    return report
