"""Reports of schedulers: use over time, the story of a job, charts and pages."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from mirage.errors import ConfigurationError
from mirage.report.schedule.gpu_charts import gantt_chart, kind_names, use_by_pool, use_by_type
from mirage.report.schedule.job_story import job_number, story_of
from mirage.report.schedule.measure_table import measures_section
from mirage.report.schedule.schedule_page import comparison_page, run_page
from mirage.report.schedule.schedule_text import print_rows, print_story
from mirage.report.svg import svg_of
from mirage.schedule.compare.gpu_comparison import compare
from mirage.schedule.compare.gpu_trial import GpuOutcome, GpuSetting, play
from mirage.schedule.compare.scheduler_text import SchedulerText
from mirage.schedule.engine.gpu_log import GpuLog
from mirage.schedule.engine.measures import measures
from mirage.schedule.gpu_cluster import GpuCluster, ServerGroup
from mirage.schedule.scheduler_contract import GpuCancel, GpuPlan, GpuScheduler, GpuStart, GpuView
from mirage.schedule.speeds.profiles import no_profiles
from mirage.schedule.workload.gpu_jobs import GpuJobs
from mirage.schedule.workload.gpu_workload import GpuWorkload
from tests.support.browser import measured
from tests.support.printed_text import page_words

CLUSTER = GpuCluster((ServerGroup("old", "t4", 1, 2), ServerGroup("new", "a100", 1, 4, "inference")))


@pytest.fixture(scope="module")
def played() -> tuple[GpuOutcome, GpuLog]:
    """Jobs of four GPUs for 3,600 s, two for 7,200 s, and four that wait for the first."""
    jobs = GpuJobs.linear([0, 0, 0], [4, 2, 4], [3600, 7200, 3600], name=("wide", "long", "late"))
    workload = GpuWorkload("by/hand", jobs, no_profiles(CLUSTER))
    return play(GpuSetting(CLUSTER), workload, SchedulerText.of("fifo"))


def test_use_over_time(played: tuple[GpuOutcome, GpuLog]) -> None:
    _, log = played
    t4, a100 = use_by_type(log)
    assert (t4.name, t4.gpus, a100.name, a100.gpus) == ("t4", 2, "a100", 4)
    assert (t4.time_s.tolist(), t4.held.tolist()) == ([0.0, 7200.0], [2, 0])
    assert (a100.time_s.tolist(), a100.held.tolist()) == ([0.0, 3600.0, 7200.0], [4, 4, 0])
    assert (t4.mean_share, a100.mean_share) == (1.0, 1.0)
    training, inference = use_by_pool(log)
    assert (training.name, inference.name, inference.gpus) == ("training", "inference", 4)


def test_the_story_of_a_job(played: tuple[GpuOutcome, GpuLog]) -> None:
    _, log = played
    story = story_of(log, job_number(log, "late"))
    assert [(moment.time_s, moment.what, moment.where) for moment in story.moments] == [
        (0.0, "submit", ""),
        (3600.0, "gets", "new-1:4"),
        (7200.0, "done", "new-1:4"),
    ]
    assert [moment.why for moment in story.moments] == ["", "head-of-queue", ""]
    assert "4 GPUs requested, done after 2.00 h, 1.00 h of them in the queue" in story.summary
    assert job_number(log, "2") == 2
    with pytest.raises(ConfigurationError, match="no job 'lat'"):
        job_number(log, "lat")


def test_a_kind_has_one_colour_on_the_page(played: tuple[GpuOutcome, GpuLog]) -> None:
    keys = re.findall(r'class="([sw]\d)"/></svg>([^<:]*GPUs)', run_page(*_row(played), {"command": "x"}))
    assert keys == [("w1", "2 to 3 GPUs"), ("w2", "4 to 7 GPUs"), ("s1", "2 to 3 GPUs"), ("s2", "4 to 7 GPUs")]


class _Cancels:
    """Starts jobs of two GPUs, and cancels those of four."""

    def decide(self, view: GpuView) -> GpuPlan:
        waiting = view.jobs.held == 0
        jobs = zip(view.jobs.id[waiting].tolist(), view.jobs.gpus[waiting].tolist())
        return GpuPlan(tuple(GpuStart(job, {0: 2}) if gpus == 2 else GpuCancel(job) for job, gpus in jobs))


class _Cancelling(SchedulerText):
    def make(self, defaults: object = None) -> GpuScheduler:
        return _Cancels()


def test_a_cancelled_job_is_not_done() -> None:
    cluster = GpuCluster((ServerGroup("one", "t4", 1, 4),))
    jobs = GpuJobs.linear([0, 600, 7200], [2, 4, 2], [3600, 100, 1800], name=("first", "wide", "second"))
    workload = GpuWorkload("w", jobs, no_profiles(cluster))
    outcome, log = play(GpuSetting(cluster), workload, _Cancelling("fifo", "fifo"))
    assert outcome.jct_s == (3600.0, 1800.0)
    assert "4 GPUs requested, cancelled after 0.00 h" in story_of(log, 1).summary
    for window_s, median in ((None, "0.75"), ((7000.0, 8000.0), "0.50")):
        words = page_words(run_page(outcome.row, log, {"command": "x"}, window_s))
        assert [word for word in words if "median" in word and "GAR" not in word] == [f"2 to 3 GPUs: median {median} h"]
    assert "No job was completed." in page_words(run_page(outcome.row, log, {"command": "x"}, (500.0, 700.0)))


def test_the_terminal(played: tuple[GpuOutcome, GpuLog]) -> None:
    outcome, log = played
    console = Console(width=160, record=True, file=io.StringIO())
    print_rows([outcome.row], console)
    print_story(story_of(log, 0), console)
    text = console.export_text()
    assert re.search(r"hand +fifo +1\.67 +2\.00 +0\.33 +2\.00 +12\.0\n", text)
    assert re.search(r"^3,600 +done +new-1:4", text, re.M)


def test_each_figure_stands_under_its_name(played: tuple[GpuOutcome, GpuLog]) -> None:
    """Mean and long decisions, shares of GPUs held by hour and by count: easily exchanged."""
    outcome, log = played
    console = Console(width=200, record=True, file=io.StringIO())
    print_rows([replace(outcome.row, policy_ms=1.25, policy_p95_ms=8.5)], console)
    names, values = (re.split(r" {2,}", line.strip()) for line in console.export_text().splitlines()[:2])
    assert dict(zip(names, values)) | {"decision ms": "1.25", "p95 ms": "8.50"} == dict(zip(names, values))
    page = measures_section(replace(measures(log), gar=0.125, sor=0.25, gfr=0.5))
    for name, value in (("GAR", "12.5%"), ("SOR", "25.0%"), ("GFR", "50.0%")):
        assert re.search(rf">{name}<.*?<td[^>]*>{value}<", page, re.S), name


def test_a_gantt_chart_draws_neighbours_as_one_bar(played: tuple[GpuOutcome, GpuLog]) -> None:
    drawn = svg_of(gantt_chart(played[1]))
    assert drawn.count("<rect") == 3
    assert "wide: 4 GPUs, 0.00 to 1.00 h" in drawn
    tall = [float(value) for value in re.findall(r'<rect[^>]*height="([\d.]+)"', drawn)]
    assert sorted(tall) == [11.0, 23.0, 23.0]
    tops = {float(value) for value in re.findall(r'<rect[^>]*y="([\d.]+)"', drawn)}
    assert len(tops) == 2  # one for each server
    assert kind_names(played[1]) == {1: "2 to 3 GPUs", 2: "4 to 7 GPUs"}


def test_long_curves_retain_their_area(played: tuple[GpuOutcome, GpuLog]) -> None:
    submit_s = np.arange(0, 4000) * 10.0
    jobs = GpuJobs.linear(submit_s, np.ones(4000, int), np.full(4000, 5.0))
    outcome, log = play(GpuSetting(CLUSTER), GpuWorkload("many", jobs, no_profiles(CLUSTER)), SchedulerText.of("fifo"))
    page = run_page(outcome.row, log, {"command": "x"})
    assert len(page) < 3_000_000
    assert page.count("<rect") > 100


@pytest.fixture(scope="module")
def pages(played: tuple[GpuOutcome, GpuLog], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    path = tmp_path_factory.mktemp("page") / "w.csv"
    path.write_text("timestamp,duration,num_gpus\n2017-01-01 00:00:00,3600,4\n2017-01-01 00:10:00,600,1\n")
    comparison = compare([str(path)], ["fifo", "sjf"], GpuSetting(CLUSTER))
    provenance = {"command": "mirage schedule run <w>"}
    return {"run": run_page(*_row(played), provenance), "comparison": comparison_page(comparison, provenance)}


def _row(played: tuple[GpuOutcome, GpuLog]) -> tuple[object, GpuLog]:
    return played[0].row, played[1]


def test_pages_state_how_they_were_made(pages: dict[str, str]) -> None:
    for page in pages.values():
        assert "mirage schedule run &lt;w&gt;" in page
        assert "Completion times" in page
    assert "<h2>Pools</h2>" in pages["run"]
    assert "Fairness and use" in pages["run"]
    assert pages["comparison"].count('class="tile"') == 2


@pytest.mark.slow
def test_pages_lie_well_in_a_browser(pages: dict[str, str], tmp_path: Path) -> None:
    faults = [fault for report in measured(pages) for fault in report["faults"]]
    assert faults == []
