"""``mirage control check``, ``run`` and ``replay``: output and exit status."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mirage.cli import cli_context, main
from mirage.cli.commands.control import control_run
from mirage.control.adviser import Adviser
from mirage.control.executor_process import end_executor, read_plan
from mirage.control.pools_file import read_pools
from mirage.errors import ConfigurationError
from tests.support.control_cluster import NOW_S, ControlCluster, pending, running

TEXT = """
[owner]
nodes = ["i[1-3]"]
partitions = ["inference"]
[borrower]
nodes = ["t[1-2]"]
partition = "train"
[jobs]
comment = "mirage-control"
"""


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ControlCluster:
    made = ControlCluster(jobs=[pending(6), pending(7, TimeLimit="10:00", PriorityLong=50)])
    monkeypatch.setattr(cli_context, "client", lambda *_: made.slurm)
    monkeypatch.setattr(cli_context, "clock", lambda: float(NOW_S))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pools.toml").write_text(TEXT)
    return made


def run(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> str:
    assert main(["control", *words]) == status
    return capsys.readouterr().out


def test_check_prints_findings_and_fails_where_nothing_answers(
    cluster: ControlCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = run(capsys, "check", "--config", "pools.toml").splitlines()
    assert "ok    version        22.05.8" in lines
    assert "note  fence          3 of 3 nodes of the owner are not behind mirage-fence" in lines
    cluster.status = 1
    rows = json.loads(run(capsys, "check", "--config", "pools.toml", "--json", status=1))
    assert [row["what"] for row in rows if row["level"] == "fail"] == ["controller"]


def test_check_reads_the_file_before_it_loads_what_is_compiled(
    cluster: ControlCluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "mirage.control.check_control", raising=False)
    Path("pools.toml").write_text("")
    run(capsys, "check", "--config", "pools.toml", status=1)
    assert "mirage.control.check_control" not in sys.modules


def test_run_once_prints_what_a_controller_would_do(
    cluster: ControlCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("run", "--config", "pools.toml", "--once", "--scheduler", "sjf", "--record", "views")
    assert run(capsys, *words).splitlines() == [
        "2026-11-26T13:33:20Z 2 pending, 0 running; 28 of 28 GPUs free; 0 nodes lent; 2 steps, 2 new",
        "  would start 7: scontrol update JobId=7 Nice=-50 (shortest-waiting)",
        "  would start 6: scontrol update JobId=6 Nice=50 (shortest-waiting)",
    ]
    assert run(capsys, "replay", "views") == "1 view, 0 with another plan\n"
    changed = json.loads(Path("views/view-000001.json").read_text())
    changed["jobs"]["run_s"][0] = 1.0
    Path("views/view-000001.json").write_text(json.dumps(changed))
    found = json.loads(run(capsys, "replay", "views", "--json", status=1))
    assert found == {"views": 1, "different": ["view-000001.json"]}
    assert main(["control", *words]) == 1
    assert "views has recorded views already" in capsys.readouterr().err
    assert main(["control", "replay", "."]) == 1
    assert "has no recorded view" in capsys.readouterr().err


def test_a_recorded_run_is_simulated(cluster: ControlCluster, capsys: pytest.CaptureFixture[str]) -> None:
    times = {"SubmitTime": NOW_S, "EligibleTime": NOW_S, "StartTime": NOW_S + 2, "EndTime": NOW_S + 52}
    cluster.jobs = [running(6, "t1", State="COMPLETED", **times)]
    run(capsys, "run", "--config", "pools.toml", "--once", "--record", "views")
    lines = run(capsys, "replay", "views", "--simulate").splitlines()
    assert lines[0] == "fifo: 1 run, 0 jobs left out (never ran, or have not ended)"
    assert lines[1].split() == ["metric", "real", "simulated", "difference", "spread"]
    assert lines[4].split() == ["mean_jct_s", "52.00", "50.00", "-3.8%", "-"]
    shutil.copytree("views", "again")
    found = json.loads(run(capsys, "replay", "views", "again", "--simulate", "--json"))
    assert [one["folder"] for one in found["runs"]] == ["views", "again"]
    assert next(one["spread"] for one in found["metrics"] if one["metric"] == "mean_jct_s") == 0.0
    assert main(["control", "replay", ".", "--simulate"]) == 1
    assert "has no record of a run" in capsys.readouterr().err
    assert main(["control", "replay", "views", "--from-scratch"]) == 2
    assert "give --simulate" in capsys.readouterr().err
    assert main(["control", "replay", "views", "again/../views"]) == 2
    assert "a folder is named twice" in capsys.readouterr().err


def test_the_order_is_exported(cluster: ControlCluster, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("run", "--config", "pools.toml", "--once", "--scheduler", "sjf", "--export")
    assert run(capsys, *words, "nice").splitlines() == [
        "scontrol update JobId=7 Nice=-50",
        "scontrol update JobId=6 Nice=50",
    ]
    assert [json.loads(line) for line in run(capsys, *words, "kueue").splitlines()] == [
        {"job": 7, "annotations": {"kueue.x-k8s.io/priority-boost": "50"}},
        {"job": 6, "annotations": {"kueue.x-k8s.io/priority-boost": "-50"}},
    ]
    cluster.jobs = cluster.jobs[:1]
    assert main(["control", *words, "nice"]) == 0
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "no job would start now out of the present order: nothing to export" in printed.err
    cluster.status = 1
    assert run(capsys, *words, "nice", status=1) == ""
    for more, message in (
        ([], "--export is the order of one snapshot; give --once, too"),
        (["--once", "--json"], "--export has a form of its own; leave --json out"),
    ):
        assert main(["control", "run", "--config", "pools.toml", "--export", "nice", *more]) == 2
        assert capsys.readouterr().err.splitlines()[-1] == f"Error: {message}"


def test_json_has_the_commands_and_a_failed_snapshot_has_the_problem(
    cluster: ControlCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("run", "--config", "pools.toml", "--once", "--json")
    found = json.loads(run(capsys, *words))
    assert (found["at"], found["problem"], found["cluster"]["pending"]) == ("2026-11-26T13:33:20Z", None, 2)
    assert [(step["step"], step["subject"], step["new"]) for step in found["steps"]] == [
        ("start", "6", True),
        ("start", "7", True),
    ]
    cluster.status = 1
    found = json.loads(run(capsys, *words, status=1))
    assert found["steps"] == []
    assert "Unable to contact" in found["problem"]


@pytest.mark.parametrize("as_json", [False, True])
def test_a_run_polls_until_it_is_interrupted_and_prints_the_account(
    cluster: ControlCluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    pauses: list[float] = []

    def sleep(seconds: float) -> Any:
        pauses.append(seconds)
        if len(pauses) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(control_run.time, "sleep", sleep)
    lines = run(capsys, "run", "--config", "pools.toml", *(["--json"] if as_json else [])).splitlines()
    assert all(59 < pause <= 60 for pause in pauses)
    if as_json:
        assert json.loads(lines[-1])["account"]["steps"] == {"start": 2}
        assert len(lines) == 4
    else:
        assert lines[-1] == "3 snapshots, 0 without a decision; steps: 2 start"
        assert sum(line.startswith("  would") for line in lines) == 2


def test_a_signal_in_a_destructor_ends_the_run(
    cluster: ControlCluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGTERM)

    def clock() -> float:
        Interrupted()  # Python drops the exception of the handler
        return float(NOW_S)

    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    monkeypatch.setattr(cli_context, "clock", clock)
    monkeypatch.setattr(control_run.time, "sleep", lambda seconds: pytest.fail("it waits for the next snapshot"))
    assert run(capsys, "run", "--config", "pools.toml").splitlines()[-1].startswith("1 snapshot")


def test_wrong_options_are_named(cluster: ControlCluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["control", "run", "--config", "absent.toml", "--once"]) == 1
    assert "cannot read absent.toml" in capsys.readouterr().err
    assert main(["control", "run", "--config", "pools.toml", "--once", "--scheduler", "srtf"]) == 1
    assert "choose one of fifo, sjf" in capsys.readouterr().err
    assert main(["control", "run", "--config", "pools.toml", "--once", "--scheduler", "sia"]) == 1
    assert "give [profiles] folder" in capsys.readouterr().err
    assert main(["control", "run", "--config", "pools.toml", "--once", "--record", "no/folder"]) == 1
    assert "cannot make no/folder" in capsys.readouterr().err
    assert not cluster.ran


def test_acting_needs_time_for_the_lease_and_no_end(
    cluster: ControlCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("pools.toml").write_text('poll = "50s"\n' + TEXT)
    assert main(["control", "run", "--config", "pools.toml", "--act", "--state", "state"]) == 1
    assert "poll = 50s is too often with --act; give 55s or more" in capsys.readouterr().err
    assert main(["control", "run", "--config", "pools.toml", "--act", "--once"]) == 2
    assert "leave --once out" in capsys.readouterr().err
    assert main(["control", "run", "--config", "pools.toml", "--once", "--state", "state"]) == 2
    assert "--state is the folder of --act; without --act nothing" in capsys.readouterr().err
    assert main(["control", "run", "--config", "pools.toml", "--once", "--scheduler", ""]) == 1
    assert capsys.readouterr().err.startswith("mirage: error: unknown GPU scheduler ''")
    Path("pools.toml").write_text('scheduler = "nope"\n' + TEXT)
    assert main(["control", "check", "--config", "pools.toml"]) == 1
    assert capsys.readouterr().err.startswith("mirage: error: pools.toml: unknown GPU scheduler 'nope'")
    assert not cluster.ran


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (0, "SIGTERM has ended the executor, as mirage control off does"),
        (1, "executor has ended; its message is above"),
    ],
)
def test_a_planner_reports_how_its_executor_has_ended(tmp_path: Path, status: int, message: str) -> None:
    process = os.posix_spawn("/bin/sh", ["sh", "-c", f"exit {status}"], {})
    os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT)
    with pytest.raises(ConfigurationError, match=message):
        control_run._check_acts(control_run.Actor(process, tmp_path))
    end_executor(process)


def test_a_plan_has_no_more_verbs_than_an_executor_could_send(cluster: ControlCluster, tmp_path: Path) -> None:
    cluster.jobs = [
        *(pending(100 + k, PriorityLong=9000 - k, TimeLimit="40:00") for k in range(90)), pending(7, TimeLimit="10:00"),
    ]  # fmt: skip
    pools = replace(read_pools(tmp_path / "pools.toml"), scheduler="sjf", commands_per_minute=20)
    advice = Adviser(cluster.slurm, pools).advise(NOW_S)
    assert len(advice.steps) == 91
    control_run._hand_over(advice, control_run.Actor(0, tmp_path), 3, pools)
    _, plan = read_plan(tmp_path)
    assert isinstance(plan, dict)
    assert len(plan["verbs"]) == 40
    assert plan["verbs"][0]["job"] == 7, "the job that starts comes before those that are postponed"


def test_off_where_nothing_is_left(cluster: ControlCluster, capsys: pytest.CaptureFixture[str]) -> None:
    Path("state").mkdir()
    for _ in range(2):
        printed = run(capsys, "off", "--config", "pools.toml", "--state", "state")
        assert printed == "nothing of the controller is left in Slurm\n"


def test_off_refuses_a_folder_that_is_not_there_and_makes_none(
    cluster: ControlCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["control", "off", "--config", "pools.toml", "--state", "nofolder"]) == 1
    assert "there is no folder nofolder; name the one of mirage control run" in capsys.readouterr().err
    assert not Path("nofolder").exists()
