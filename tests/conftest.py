"""Fixtures of all tests, and the order in which the tests run."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import invalidate_caches
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

os.environ.setdefault("OMP_NUM_THREADS", "1")  # threads of PyTorch wait for each other where cores are shared
settings.register_profile("shared-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared-machine")  # on a busy machine slow says nothing of the test


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of development data; a test that needs it is skipped where it is absent."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("MIRAGE_DATA", default))
    if not folder.is_dir():
        pytest.skip(f"no development data at {folder}; set MIRAGE_DATA to where they are")
    return folder


@pytest.fixture
def install_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Installs packages of one module with entry points, for this process and its children."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])]))

    def install(package: str, module: str, text: str, points: dict[str, dict[str, str]]) -> None:
        """Args: names of package and module, the module's text, entry points by group and name."""
        (site / f"{module}.py").write_text(text, encoding="utf-8")
        monkeypatch.delitem(sys.modules, module, raising=False)
        found = site / f"{package.replace('-', '_')}-1.0.dist-info"
        found.mkdir()
        facts = f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\nSummary: All about {module}.\n"
        (found / "METADATA").write_text(facts)
        lines = [
            line for group, of in points.items() for line in (f"[{group}]", *(f"{n} = {v}" for n, v in of.items()), "")
        ]
        (found / "entry_points.txt").write_text("\n".join(lines))
        invalidate_caches()

    return install


@contextmanager
def time_zone(name: str) -> Iterator[None]:
    """Sets a time zone for the process, and restores the former one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", name)
        time.tzset()
        yield
    time.tzset()


@pytest.fixture
def utc() -> Iterator[None]:
    """Times are printed in UTC, on every machine."""
    with time_zone("UTC"):
        yield


@pytest.fixture
def newfoundland() -> Iterator[None]:
    """Times are printed in a zone that is no default: UTC-03:30 in winter."""
    with time_zone("America/St_Johns"):
        yield


@pytest.fixture(autouse=True)
def signals_are_as_before() -> Iterator[None]:
    """Fails a test that leaves a signal handled otherwise: later processes would inherit it."""
    numbers = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
    before = {number: signal.getsignal(number) for number in numbers}
    yield
    after = {number: signal.getsignal(number) for number in numbers}
    for number, handler in before.items():
        signal.signal(number, handler)
    assert after == before


MARK = "MIRAGE_TEST_PROCESS"
"""A variable by which the processes that tests start, and theirs, are known."""


@pytest.fixture(scope="session", autouse=True)
def no_process_is_left() -> Iterator[None]:
    """Fails if a process that a test started still runs after all tests."""
    mark = f"{MARK}={os.getpid()}"
    os.environ[MARK] = str(os.getpid())
    yield
    forks = []
    if "tests.support.forked_processes" in sys.modules:
        forks = sys.modules["tests.support.forked_processes"].end_the_fork_server()
    end = time.monotonic() + 10
    while (left := _marked(mark.encode())) and time.monotonic() < end:
        time.sleep(0.1)
    assert [*forks, *left] == []


def _marked(mark: bytes) -> list[str]:
    """Command lines of the processes with this in their environment, except our own."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue  # it is gone, or another user's
    return [command for command in found if command and "resource_tracker" not in command]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Lists skipped tests where each is a failure: with ``MIRAGE_SKIPS_FAIL``."""
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


PARTS = {
    "test_handover_real.py": 4, "test_outages_real.py": 2, "test_crashes_real.py": 4, "test_evaluate.py": 1,
    "test_own_jobs_forecast_real.py": 4, "test_tutorials.py": 3, "test_chains_real.py": 3, "test_holds_real.py": 1,
    "test_endpoint_real.py": 3, "test_week_of_troubles.py": 1, "test_brakes_real.py": 2, "test_base.py": 1,
    "test_cold_cache_real.py": 1, "test_recover_real.py": 3, "test_kernel_cache.py": 1, "test_moved_folder_real.py": 1,
    "test_submit_real.py": 2, "test_extending.py": 1, "test_isolation_real.py": 1, "test_survey_real.py": 1,
    "test_backends.py": 1, "test_compile_command.py": 1, "test_chains.py": 2, "test_revision_real.py": 1,
    "test_migrations.py": 1, "test_site_calibration_real.py": 1, "test_train_method.py": 1, "test_identity_real.py": 1,
    "test_real_cluster.py": 1, "test_sbatch_parity.py": 1, "test_demo.py": 1, "test_agent.py": 1,
    "test_rehearse_real.py": 2, "test_adopt_real.py": 2, "test_recipes_real.py": 1, "test_agentless_real.py": 2,
}  # fmt: skip
"""Files of a minute or more, and into how many parts each is dealt for workers that take whole files. They come first,
those that compute between those that wait for a real Slurm: workers then end at about the same time, and not one of
them long after the others."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest files."""
    places = {name: place for place, name in enumerate(PARTS)}
    items.sort(key=lambda item: places.get(item.path.name, len(PARTS)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Lets ``--dist loadfile`` run the tests of a file, or of a part of it, together.

    xdist's own groups do nothing under pytest 9.2: they are written into names of tests that can no longer be changed.
    """
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Dealing(LoadFileScheduling):
        """A file is dealt test by test into its parts."""

        def __init__(self, *words: Any) -> None:
            super().__init__(*words)
            self.part_of: dict[str, str] = {}
            self.dealt: Counter[str] = Counter()

        def _split_scope(self, nodeid: str) -> str:
            if nodeid not in self.part_of:
                file: str = super()._split_scope(nodeid)
                part = self.dealt[file] % PARTS.get(Path(file).name, 1)
                self.dealt[file] += 1
                self.part_of[nodeid] = f"{file}#{part + 1}"
            return self.part_of[nodeid]

    return Dealing(config, log)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skips files without slow tests in a run of the slow ones, before their import."""
    if config.option.markexpr.startswith("slow") and collection_path.match("test_*.py"):
        return None if "slow" in collection_path.read_text(encoding="utf-8") else True
    return None


@pytest.fixture(scope="session")
def private_cluster() -> Iterator[Callable[..., Any]]:
    """Makes private real Slurm clusters: ``private_cluster(nodes=4, speed=60)``.

    They are removed in the end, by ``tests.support.left_clusters`` where a signal ends pytest.

    They do not lie below pytest's own folder: every run of pytest on the machine that starts closes that one to other
    users, and the jobs of a second user could no longer read their scripts.
    """
    from mirage.lab.real.lab_spec import LabSpec
    from mirage.lab.real.private_cluster import PrivateCluster
    from mirage.lab.real.slurm_packages import ADVICE, missing

    after_us = subprocess.Popen(
        [sys.executable, "-m", "tests.support.left_clusters"],
        stdin=subprocess.PIPE, text=True, bufsize=1, cwd=Path(__file__).parents[1], start_new_session=True,
    )  # fmt: skip
    with after_us, ExitStack() as clusters:

        def make(**wanted: Any) -> PrivateCluster:
            folder = tempfile.mkdtemp(prefix="mirage-slurm-")
            print(folder, file=after_us.stdin)
            clusters.callback(shutil.rmtree, folder, ignore_errors=True)
            spec = LabSpec(directory=Path(folder), **wanted)
            if lacking := missing(spec):
                pytest.skip(f"a real Slurm needs {', '.join(lacking)}; {ADVICE}")
            cluster = PrivateCluster(spec)
            clusters.callback(cluster.purge)
            cluster.up()
            return cluster

        yield make
