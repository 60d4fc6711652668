"""Reports of schedulers word by word, on pages and on the terminal."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mirage.report.schedule.job_story import JobEvent, JobStory, story_of
from mirage.report.schedule.measure_table import measures_json, measures_section
from mirage.report.schedule.schedule_page import comparison_page, run_page
from mirage.report.schedule.schedule_text import print_rows, print_story
from mirage.schedule.compare.gpu_comparison import FailedTrial, GpuComparison
from mirage.schedule.compare.gpu_comparison_row import MEAN, GpuComparisonRow
from mirage.schedule.compare.gpu_trial import GpuOutcome, GpuSetting, play
from mirage.schedule.compare.scheduler_text import SchedulerText
from mirage.schedule.engine.gpu_log import GpuLog
from mirage.schedule.engine.measures import Measures, measures
from mirage.schedule.gpu_cluster import GpuCluster, ServerGroup
from mirage.schedule.speeds.profiles import no_profiles
from mirage.schedule.workload.gpu_jobs import GpuJobs
from mirage.schedule.workload.gpu_workload import GpuWorkload
from tests.support.printed_text import page_words, printed

CLUSTER = GpuCluster((ServerGroup("old", "t4", 1, 2), ServerGroup("new", "a100", 2, 4, "inference")))
NAMES = (
    "workload | scheduler | mean JCT h | p99 JCT h | mean wait h | makespan h | GPU h | preempted | restarts | "
    "lost GPU h | decision ms"
)  # fmt: skip


@pytest.fixture(scope="module")
def played() -> tuple[GpuOutcome, GpuLog]:
    """Jobs of four GPUs for 1 h and 2 h, one of two GPUs for 3 h, and one of four that waits."""
    jobs = GpuJobs.linear([0, 0, 0, 0], [4, 2, 4, 4], [3600, 10_800, 7200, 1800], name=("wide", "long", "late", "last"))
    return play(GpuSetting(CLUSTER), GpuWorkload("by/hand", jobs, no_profiles(CLUSTER)), SchedulerText.of("fifo"))


def row(workload: str, scheduler: str, jct_h: float, **known: Any) -> GpuComparisonRow:
    figures = {
        "p99_jct_s": 9000.0, "mean_wait_s": 1800.0, "makespan_s": 36_000.0, "gpu_h": 1234.56, "preemptions": 1017.0,
        "lost_gpu_h": 3.456, "policy_ms": 1.234, "policy_p95_ms": None, "restarts": 12.0, "jobs": 4321.0,
    }  # fmt: skip
    return GpuComparisonRow(workload, scheduler, jct_h * 3600, **figures | known)


CELLS = "2.50 | 0.50 | 10.00 | 1,234.6 | 1,017 | 12 | 3.46 | 1.23"


def measured(log: GpuLog) -> Measures:
    return replace(
        measures(log), mean_unfairness=0.954, worst_unfairness=1.506, excess_gpus=1234, gar=0.125, sor=0.25, gfr=0.5,
        jtted=(1.0, 1.25, 2.5), jwtd_s={1: (1800.0, 36_000.0), 8: (0.0, 9000.0), 64: (3600.0, 7200.0)},
    )  # fmt: skip


def test_the_page_of_a_run(played: tuple[GpuOutcome, GpuLog]) -> None:
    outcome, log = played
    shown = replace(row("by/hand", "fifo", 1.6), jobs=4321.0)
    words = page_words(run_page(shown, log, {"command": "mirage schedule run a.csv"}))
    assert words == [
        "# fifo on by/hand",
        "4,321 jobs on 10 GPUs in 3 servers.",
        *("mean JCT", "1.60 h", "99 %: 2.50 h"),
        *("mean wait", "0.50 h", "all time in the queue"),
        *("makespan", "10.00 h", "1,235 GPU-hours"),
        *("preemptions", "1,017", "3.5 GPU-hours lost"),
        "## GPU types",
        "GPUs held over time; dashed lines show the total. The key gives the mean share.",
        "t4: 100% of 2 GPUs",
        "a100: 58% of 8 GPUs",
        "## Pools",
        "GPUs held over time; dashed lines show the total. The key gives the mean share.",
        "training: 100% of 2 GPUs",
        "inference: 58% of 8 GPUs",
        "## Completion times",
        "Share of jobs that were completed within a number of hours after submission. Every curve is one kind of job.",
        "2 to 3 GPUs: median 3.00 h",
        "4 to 7 GPUs: median 1.50 h",
        "## Jobs on GPUs",
        "A lane for every GPU of every server; point at a bar to see its job.",
        *("2 to 3 GPUs", "4 to 7 GPUs"),
        "## Figures",
        "JCT is the time from submission to completion; waiting is all time in the queue.",
        f"| {NAMES}",
        f"| by/hand | fifo | 1.60 | {CELLS}",
        *words[words.index("## Fairness and use") : -2],
        "> How this was made",
        "mirage schedule run a.csv",
    ]
    one_pool = GpuCluster(CLUSTER.groups[:1])
    small = GpuJobs.linear([0], [1], [3600])
    played_small = play(GpuSetting(one_pool), GpuWorkload("w", small, no_profiles(one_pool)), SchedulerText.of("fifo"))
    assert "## Pools" not in page_words(run_page(outcome.row, played_small[1], {"command": "x"}))
    assert "1 GPU: median 1.00 h" in page_words(run_page(outcome.row, played_small[1], {"command": "x"}))


def test_the_table_of_measures(played: tuple[GpuOutcome, GpuLog]) -> None:
    assert page_words(f"<body>{measures_section(measured(played[1]))}") == [
        "## Fairness and use",
        "Unfairness above 1: later than on an equal share. Shares are of the time from first submission to last end.",
        "| measure | value | of what",
        "| finish-time unfairness, mean | 0.95 | jobs with known run times",
        "| finish-time unfairness, worst | 1.51 | jobs with known run times",
        "| GPUs evicted beyond those needed | 1,234 | where the scheduler reports its need",
        "| GAR | 12.5% | GPUs held, median over time",
        "| SOR | 25.0% | GPU-hours held",
        "| GFR | 50.0% | servers held in part, mean over time",
        "| JTTED | 1.00 / 1.25 / 2.50 | servers used over the fewest, 5 / 50 / 95 % of GPU-hours",
        "| JWTD, 1 GPU | 0.50 h / 10.00 h | wait, 50 % / 95 %",
        "| JWTD, 8 to 15 GPUs | 0.00 h / 2.50 h | wait, 50 % / 95 %",
        "| JWTD, 64 GPUs and more | 1.00 h / 2.00 h | wait, 50 % / 95 %",
    ]


def test_measures_without_data_are_null_in_json(played: tuple[GpuOutcome, GpuLog]) -> None:
    nan = float("nan")
    plain = measures_json(replace(measured(played[1]), gar=nan, jtted=(1.0, nan, 2.0), jwtd_s={4: (nan, 3.5)}))
    assert (plain["gar"], plain["sor"], plain["excess_gpus"]) == (None, 0.25, 1234)
    assert (plain["jtted"], plain["jwtd_s"]) == ([1.0, None, 2.0], {"4": [None, 3.5]})
    assert (plain["jobs"], plain["mean_jct_s"]) == (4, pytest.approx((1 + 3 + 2 + 1.5) / 4 * 3600))


ROWS = (
    row("a.csv", "fifo", 3.0), row("a.csv", "sjf", 2.0), row("b.csv", "fifo", 1.0), row("b.csv", "sjf", 4.0),
    row(MEAN, "fifo", 2.0), row(MEAN, "sjf", 3.0),
)  # fmt: skip


def compared(rows: tuple[GpuComparisonRow, ...], *failed: FailedTrial) -> GpuComparison:
    jct_h = {"fifo": (1.0, 2.0, 9.0), "sjf": (2.0, 4.0)}
    outcomes = [
        GpuOutcome(one, tuple(hours * 3600 for hours in jct_h[one.scheduler])) for one in rows if one.workload != MEAN
    ]
    return GpuComparison(rows, tuple(outcomes), 0, failed)


def test_the_page_of_a_comparison() -> None:
    failed = FailedTrial("b.csv", "las", "broken")
    assert page_words(comparison_page(compared(ROWS, failed), {"command": "mirage schedule compare <x>"})) == [
        "# Schedulers compared",
        "2 schedulers, 2 workloads: a.csv, b.csv. 1 trial failed and is missing here.",
        *("fifo", "2.00 h", "mean JCT"),
        *("sjf", "3.00 h", "mean JCT"),
        "## Completion times",
        "Share of jobs that were completed within a number of hours after submission. Jobs of all workloads together.",
        "fifo: median 2.00 h",
        "sjf: median 3.00 h",
        "## Figures",
        "JCT is the time from submission to completion; waiting is all time in the queue.",
        f"| {NAMES}",
        *(f"| {one.workload} | {one.scheduler} | {one.mean_jct_s / 3600:.2f} | {CELLS}" for one in ROWS),
        "> How this was made",
        "mirage schedule compare <x>",
    ]


def test_the_page_of_a_single_workload() -> None:
    words = page_words(comparison_page(compared(ROWS[:2], *[FailedTrial("a.csv", "x", "")] * 2), {"command": "x"}))
    assert words[1] == "2 schedulers, 1 workload: a.csv. 2 trials failed and are missing here."
    assert words[2:8] == ["sjf", "2.00 h", "mean JCT", "fifo", "3.00 h", "mean JCT"]
    assert page_words(comparison_page(compared(ROWS[:2]), {"command": "x"}))[1] == ("2 schedulers, 1 workload: a.csv.")


def test_rows_on_the_terminal_have_the_best_of_each_workload_in_bold() -> None:
    head, *lines, note = printed(lambda console: print_rows(ROWS, console), 200)
    assert " | ".join(head.removeprefix("<dim>").removesuffix("</>").split("  ")).count("JCT h") == 2
    assert [line.startswith("<bold green>") for line in lines] == [False, True, True, False, True, False]
    assert [line.split()[:3] for line in lines[2:4]] == [["<bold", "green>b.csv", "fifo"], ["b.csv", "sjf", "4.00"]]
    assert note == "<dim>mean: over the workloads, with equal weights</>"
    assert "equal weights" not in "".join(printed(lambda console: print_rows(ROWS[:4], console), 200))


def test_columns_that_are_empty_in_all_rows_are_left_out() -> None:
    known = {"preemptions": 5.0, "restarts": 5.0, "lost_gpu_h": 0.0, "policy_ms": None}
    found = [row("a.csv", "fifo", 0.54161, **known), row("a.csv", "sjf", 0.5, **known)]
    head, *lines = printed(lambda console: print_rows(found, console), 200)
    assert head.removesuffix("</>").split()[-2:] == ["h", "preempted"]
    assert [line.split()[2] for line in lines][:1] == ["0.542"]
    assert all(word not in head for word in ("restarts", "lost", "decision", "p95"))
    (idle,) = printed(lambda console: print_rows([replace(found[0], preemptions=0.0, restarts=0.0)], console), 200)[:1]
    assert "preempted" not in idle


def test_the_story_of_a_job_on_the_terminal(played: tuple[GpuOutcome, GpuLog]) -> None:
    log = played[1]
    assert printed(lambda console: print_story(story_of(log, 3), console), 150) == [
        "<bold>job last: 4 GPUs requested, done after 1.50 h, 1.00 h of them in the queue; "
        "2.00 GPU-h: 2.00 useful, 0.00 lost, 0.00 overhead</>",
        "<dim>second  what    where    why            expected end</>",
        "0       submit",
        "3,600   gets    new-1:4  head-of-queue",
        "5,400   done    new-1:4",
    ]
    story = JobStory("a", "one", (JobEvent(12_345.6, "gets", "x:1", "because", 20_000.4), JobEvent(99_999.0, "killed")))
    assert printed(lambda console: print_story(story, console), 150) == [
        "<bold>job a: one</>",
        "<dim>second  what    where  why      expected end</>",
        "12,346  gets    x:1    because        20,000",
        "99,999  killed",
    ]
