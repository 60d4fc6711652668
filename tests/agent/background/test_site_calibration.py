"""The weekly calibration: its begin, its limits, and no effect on chains or other agents."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from mirage.agent.agent import Agent
from mirage.agent.background.calibration import COMMAND, ONE_THREAD, SiteCalibration
from mirage.agent.model import ChainSpec, Cycle
from mirage.agent.monitoring.metrics import Metrics
from mirage.agent.settings import AgentSettings
from mirage.agent.store.sql_store import SqlStore
from mirage.calibration.site.calibration_files import CalibrationFiles
from mirage.calibration.site.stored_calibration import read_stored_calibration
from mirage.duration import DAY_S, HOUR_S
from mirage.lab.virtual.program import Program
from mirage.real_time import real_s, wait_until
from mirage.sim.cluster import Cluster
from mirage.sim.slurm_conf.cluster_file import ClusterFile, write_cluster_file
from mirage.slurm.backend import cluster_of
from mirage.slurm.records import Submission
from tests.support.ready_shells import NoShell
from tests.support.small_slurm import BEGIN_S, small_slurm

OPTIONS = {
    "clustername": "polaris", "slurmctldhost[0]": "ctl1", "slurmctldport": "6817",
    "accountingstoragetype": "accounting_storage/slurmdbd",
}  # fmt: skip
HERE = cluster_of(OPTIONS)
SETTINGS = AgentSettings()
WEEK_S = 7 * DAY_S

ATTEMPT = """
import sys, time
from pathlib import Path
from mirage.calibration.site.calibration_files import CalibrationFiles
from mirage.errors import ConfigurationError, SlurmUnreachable
place = CalibrationFiles(Path(sys.argv[1]), sys.argv[2])
try:
    with place.attempting(lambda: int(sys.argv[3])):
        {what}
except (ConfigurationError, SlurmUnreachable) as error:
    sys.exit(f"mirage: error: {{error}}")
"""
"""What ``mirage calibrate --site`` does of an attempt, but for the calibration."""


def write(place: CalibrationFiles, made_s: int) -> None:
    """A calibration made then."""
    made = datetime.fromtimestamp(made_s, UTC)
    judged = {"jobs": 9, "moving_average_mape": 0.25, "rank_correlation": 0.5}
    facts = {"cluster": place.cluster, "made": made, "fitted_until": made, "judged_until": made,
             "fidelity": {"all": {"judged": judged}}}  # fmt: skip
    place.folder.mkdir(exist_ok=True)
    write_cluster_file(place.file, ClusterFile(Cluster.pool(4), calibration=facts), 0o600)


class Night:
    """Weeks of an agent in steps of ten minutes, cluster time; each attempt is waited for."""

    def __init__(self, folder: Path, user: str = "ada", settings: AgentSettings = SETTINGS) -> None:
        self.folder, self.now_s, self.what = folder, BEGIN_S, ""
        self.begun_s: list[int] = []
        self.made = SiteCalibration(folder, user, settings, real_s, ())
        self.options = dict(OPTIONS)

    @property
    def place(self) -> CalibrationFiles:
        return CalibrationFiles(self.folder, cluster_of(self.options))

    def live(self, seconds: int, what: str = "pass") -> None:
        """Check every ten minutes; ``what`` is done in each attempt."""
        end_s = self.now_s + seconds
        while self.now_s < end_s:
            self.now_s += 600
            text = textwrap.dedent(ATTEMPT.format(what=what))
            self.made.command = (
                sys.executable, "-c", text, str(self.folder), cluster_of(self.options), str(self.now_s)
            )  # fmt: skip
            self.made.update(self.options, self.now_s)
            if self.made.is_under_way:
                self.begun_s.append(self.now_s)
                self.wait()

    def succeed(self, seconds: int) -> None:
        """Live while every attempt ends well."""
        end_s = self.now_s + seconds
        while self.now_s < end_s:
            before = len(self.begun_s)
            self.live(600)
            if len(self.begun_s) > before:
                write(self.place, self.now_s)

    def wait(self) -> None:
        """Wait for the end of what is under way."""

        def ended() -> bool:
            self.made.update(self.options, self.now_s)
            return not self.made.is_under_way

        assert wait_until(ended, 60)

    def days_between(self) -> list[float]:
        return [(later - sooner) / DAY_S for sooner, later in zip(self.begun_s, self.begun_s[1:])]


@pytest.fixture
def night(tmp_path: Path) -> Iterator[Night]:
    made = Night(tmp_path / "calibration")
    yield made
    made.made.close()


def test_it_runs_mirage_calibrate_site() -> None:
    assert (sys.executable, "-m", "mirage", "calibrate", "--site") == COMMAND


def test_the_first_comes_within_a_day_and_the_next_every_week(night: Night) -> None:
    night.succeed(23 * DAY_S)
    assert night.begun_s[0] - BEGIN_S <= DAY_S + 600
    assert night.days_between() == pytest.approx([7, 7, 7], abs=0.1)


def test_after_a_failure_it_is_tried_daily_and_after_a_refusal_weekly(night: Night) -> None:
    night.live(4 * DAY_S, "raise SlurmUnreachable('sacct did not answer')")
    assert night.days_between() == pytest.approx([1, 1, 1], abs=0.1)
    night.begun_s.clear()
    night.live(16 * DAY_S, "raise ConfigurationError('only your own jobs')")
    assert night.days_between() == pytest.approx([7, 7], abs=0.1)
    assert dict(night.made.ended) == {"failed": 4, "refused": 3}


def test_one_that_was_killed_is_tried_again_the_next_day(night: Night) -> None:
    night.live(3 * DAY_S, "import os; os.kill(os.getpid(), 9)")
    assert len(night.begun_s) == 3


def test_an_agent_that_starts_does_not_begin_at_once_nor_after_a_restart_twice(tmp_path: Path) -> None:
    first = Night(tmp_path)
    first.succeed(2 * DAY_S)
    (begun_s,) = first.begun_s
    again = Night(tmp_path)
    again.now_s = begun_s + 600
    again.live(5 * DAY_S)
    assert again.begun_s == []
    fresh = Night(tmp_path / "fresh")
    fresh.live(600)
    assert fresh.begun_s == []


def test_agents_of_many_users_and_clusters_begin_all_over_the_day() -> None:
    def due_s(user: str, cluster: str) -> int:
        made = SiteCalibration(Path("/nowhere"), user, SETTINGS, real_s)
        made._place = CalibrationFiles(Path("/nowhere"), cluster)
        return made.due_s(BEGIN_S) % DAY_S

    hours = [due_s(f"u{k}", HERE) // HOUR_S for k in range(240)]
    assert len(set(hours)) == 24
    assert max(hours.count(hour) for hour in set(hours)) < 30
    assert due_s("ada", HERE) != due_s("ada", "other@x:1")
    assert due_s("ada", HERE) == due_s("ada", HERE)


def test_a_second_cluster_is_calibrated_for_itself(night: Night) -> None:
    night.succeed(2 * DAY_S)
    night.options["clustername"] = "vega"
    night.succeed(2 * DAY_S)
    assert len(night.begun_s) == 2
    assert {path.name for path in night.folder.glob("*.toml")} == {"polaris@ctl1-6817.toml", "vega@ctl1-6817.toml"}
    assert read_stored_calibration(CalibrationFiles(night.folder, HERE)) is not None


def test_a_second_agent_of_the_same_folder_does_not_run_it_twice(tmp_path: Path) -> None:
    one, other = Night(tmp_path), Night(tmp_path)
    one.succeed(2 * DAY_S)
    other.live(2 * DAY_S)
    assert (len(one.begun_s), len(other.begun_s)) == (1, 0)


def test_while_another_process_is_at_it_ours_fails_and_leaves_its_note_alone(night: Night) -> None:
    with night.place.attempting(lambda: 5):
        note = night.place.attempt()
        night.live(2 * DAY_S)
        assert night.place.attempt() == note
    assert night.made.ended["failed"] == len(night.begun_s) > 0


@pytest.mark.parametrize("accounts", ["accounting_storage/none", ""])
def test_without_accounts_nothing_is_started(night: Night, accounts: str) -> None:
    night.options["accountingstoragetype"] = accounts or "none"
    night.live(3 * DAY_S)
    assert night.begun_s == []


def test_it_can_be_switched_off(tmp_path: Path) -> None:
    night = Night(tmp_path, settings=replace(SETTINGS, calibrate_every_s=0))
    night.live(10 * DAY_S)
    assert night.begun_s == []


def test_a_file_that_cannot_be_read_is_made_anew(night: Night) -> None:
    night.folder.mkdir()
    night.place.file.write_text("no toml [")
    night.live(2 * DAY_S)
    assert len(night.begun_s) == 2


REPORT = """import json, os, resource; (place.folder / 'told').write_text(json.dumps([os.nice(0),
            resource.getrlimit(resource.RLIMIT_CPU)[0], resource.getrlimit(resource.RLIMIT_DATA)[0],
            os.getcwd(), dict(os.environ)]))"""


def test_it_is_polite(night: Night) -> None:
    night.live(DAY_S + 600, REPORT)
    nice, cpu_s, data, folder, environment = json.loads((night.folder / "told").read_text())
    assert (nice, cpu_s, data, folder) == (19, SETTINGS.calibrate_cpu_s, SETTINGS.calibrate_mib << 20, "/")
    assert environment.items() >= ONE_THREAD.items()
    assert (night.folder.stat().st_mode & 0o777, night.place.log.stat().st_mode & 0o777) == (0o700, 0o600)


def details(caplog: pytest.LogCaptureFixture, event: str) -> list[str]:
    return [record.detail for record in caplog.records if record.msg == event]  # type: ignore[attr-defined]


def test_its_end_and_its_failure_are_logged(night: Night, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mirage.agent")
    night.live(DAY_S + 600, "raise ConfigurationError('only your own jobs')")
    assert details(caplog, "calibrating") == [f"the simulator to {HERE}, in the background"]
    (why,) = details(caplog, "not calibrated")
    assert why.startswith("status 1 after ")
    assert why.endswith("mirage: error: only your own jobs")
    write(night.place, night.now_s)
    night.begun_s.clear()
    night.live(8 * DAY_S)
    assert details(caplog, "calibrated")[0].endswith("two-week mean waits 25%, rank correlation of single waits 0.50")


def test_what_hangs_is_ended(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    night = Night(tmp_path, settings=replace(SETTINGS, calibrate_real_s=0.5))
    night.live(DAY_S + 600, "time.sleep(3600)")
    assert night.made.ended["failed"] == 1
    assert "stopped, as it had not finished after" in details(caplog, "not calibrated")[0]


def test_what_computes_indefinitely_is_ended_by_the_kernel(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    night = Night(tmp_path, settings=replace(SETTINGS, calibrate_cpu_s=1))
    night.live(DAY_S + 600, "exec('while True: pass')")
    assert f"status -{signal.SIGXCPU.value} after" in details(caplog, "not calibrated")[0]


def test_what_cannot_be_started_is_reported_once_a_day(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    made = SiteCalibration(tmp_path, "ada", SETTINGS, real_s, (str(tmp_path / "no such program"),))
    for step in range(300):
        made.update(OPTIONS, BEGIN_S + 600 * step)
    assert len(details(caplog, "trouble")) == 2


def test_a_fault_in_it_ends_no_cycle(
    night: Night, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object) -> int:
        raise ZeroDivisionError("of ours")

    monkeypatch.setattr(SiteCalibration, "due_s", fails)
    night.live(2 * HOUR_S)
    assert details(caplog, "trouble")[0] == "a fault of Mirage in the calibration: ZeroDivisionError: of ours"


class Chains:
    """Two chains of one-node links on sixteen idle nodes, and their agent."""

    def __init__(self, store: SqlStore, script: Path, calibration: SiteCalibration | None) -> None:
        self.store, self.slurm = store, small_slurm(Cluster.pool(16), Program(), "easy")
        self.agent = Agent(
            store, self.slurm, NoShell(), clock=self.slurm.clock, monotonic=self.slurm.clock, holder="me",
            settings=SETTINGS, calibration=calibration,
        )  # fmt: skip
        for name in ("c1", "c2"):
            spec = ChainSpec(Submission(str(script), {"time": "10:00", "nodes": "1"}), policy="lead:0.1")
            store.add_chain(name, spec, BEGIN_S)

    def live(self, seconds: int) -> list[tuple[int, ...]]:
        """All links after a time, to the second."""
        end_s = self.slurm.clock() + seconds
        while self.slurm.clock() < end_s:
            self.slurm.sleep(self.agent.pause_s(self.agent.cycle(), 0.0))
        return [(one.chain, one.number, one.submitted_s, one.started_s, one.ended_s) for one in self.store.links()]


def until_due_s(user: str) -> int:
    """Time from the start to the begin of a user's calibration, on the simulated cluster."""
    made = SiteCalibration(Path("/nowhere"), user, SETTINGS, real_s)
    made._place = CalibrationFiles(Path("/nowhere"), "simulated@localhost:6817")
    return made.due_s(BEGIN_S + DAY_S) - BEGIN_S


@pytest.mark.slow
def test_chains_do_not_notice_one_that_hangs_and_the_end_of_the_agent_ends_it(tmp_path: Path, script: Path) -> None:
    from mirage.agent.store.sql_store import open_store

    lives = []
    user = next(name for name in map(str, range(1000)) if 600 < until_due_s(name) < 1200)
    for name in ("alone", "beside"):
        made = None
        if name == "beside":
            made = SiteCalibration(tmp_path / "c", user, SETTINGS, real_s, ("/bin/sleep", "3600"))
        store = open_store(f"sqlite:///{tmp_path}/{name}.db")
        chains = Chains(store, script, made)
        lives.append(chains.live(1500))
        if made is not None:
            assert made.is_under_way
            chains.agent.run(lambda _: None, lambda: True)
            assert not made.is_under_way
        store.close()
    assert lives[0] == lives[1]
    assert len(lives[0]) > 4, "link after link"


PARENT = """
import sys, time
from pathlib import Path
from mirage.agent.background.calibration import SiteCalibration
from mirage.agent.settings import AgentSettings
options, now_s = {options!r}, {now_s}
made = SiteCalibration(Path(sys.argv[1]), "ada", AgentSettings(), time.monotonic, ("/bin/sleep", "3600"))
made.update(options, now_s)
made.update(options, now_s + 86400)
print(made._child.pid, flush=True)
time.sleep(3600)
"""


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_a_killed_agent_takes_it_along(tmp_path: Path) -> None:
    text = PARENT.format(options=OPTIONS, now_s=BEGIN_S)
    with subprocess.Popen([sys.executable, "-c", text, str(tmp_path)], stdout=subprocess.PIPE) as agent:
        assert agent.stdout is not None
        child = int(agent.stdout.readline())
        assert lives(child)
        os.kill(agent.pid, signal.SIGKILL)
        agent.wait()
    assert wait_until(lambda: not lives(child), 10)


def read(text: str) -> dict[str, float]:
    return {
        sample.name + "".join(f",{value}" for value in sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if "calibration" in sample.name
    }


def metrics_of(store: SqlStore, made: SiteCalibration) -> Callable[[], dict[str, float]]:
    metrics = Metrics(store, SimpleNamespace(count={}), lambda: 1, "me", made)

    def reported() -> dict[str, float]:
        metrics.record_cycle(Cycle(), 0.1)
        return read(metrics.text())

    return reported


def test_metrics_report_age_figures_and_failures(store: SqlStore, night: Night) -> None:
    reported = metrics_of(store, night.made)
    assert reported() == {
        "mirage_calibration_under_way": 0, "mirage_calibrations_total,done": 0, "mirage_calibrations_total,refused": 0,
        "mirage_calibrations_total,failed": 0,
    }  # fmt: skip
    night.live(2 * DAY_S, "raise SlurmUnreachable('no answer')")
    assert reported()["mirage_calibrations_total,failed"] == 2
    write(night.place, night.now_s)
    night.live(8 * DAY_S)
    found: dict[str, Any] = reported()
    assert found["mirage_calibration_timestamp_seconds"] > BEGIN_S
    assert (found["mirage_calibration_error_ratio"], found["mirage_calibration_rank_correlation"]) == (0.25, 0.5)
    assert found["mirage_calibrations_total,done"] >= 1
