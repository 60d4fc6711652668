"""What all tests share: the development data, which lie beside the checkout and are never part of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of development data; a test that needs it is skipped where it is absent."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("MIRAGE_DATA", beside))
    if not folder.is_dir():
        pytest.skip(f"no development data at {folder}; set MIRAGE_DATA to where they are")
    return folder


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Where everything is at hand, a skipped test is a failure: the gate sets ``MIRAGE_SKIPS_FAIL``."""
    skipped = terminalreporter.stats.get("skipped", [])
    if skipped and os.environ.get("MIRAGE_SKIPS_FAIL"):
        terminalreporter.section("skipped where nothing may be", red=True)
        for report in skipped:
            terminalreporter.line(f"{report.nodeid}: {report.longrepr}")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Fail a run in which a test was skipped though none may be."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("MIRAGE_SKIPS_FAIL") and exitstatus == 0 and reporter and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
