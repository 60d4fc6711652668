"""``mirage dag compare``."""

import json
from dataclasses import replace

import pytest

from mirage.cli import main
from mirage.dag.decima import decima_schedulers
from mirage.dag.schedulers.stage_schedulers import SCHEDULERS, make_scheduler

SMALL = ("--setting", "5/4", "--seeds", "300-301")


def test_rows_and_differences_as_json(capsys):
    assert main(["dag", "compare", *SMALL, "--policies", "fair,capped:0.25:1.5", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [(row["policy"], row["seeds"]) for row in report["rows"]] == [("fair", 2), ("capped:0.25:1.5", 2)]
    for row in report["rows"]:
        assert 0 < row["mean_jct_s"] < row["p95_jct_s"] <= row["makespan_s"]
        assert row["decision_us"] >= 0
    assert report["differences"][0]["against"] == "fair"
    assert (report["environment"], report["profiles"]) == ("spark-sched-sim", None)


def test_a_table_for_people(capsys):
    assert main(["dag", "compare", *SMALL, "--policies", "fifo,sjf:0.5", "--noise", "0.1", "--moving-delay", "0"]) == 0
    shown = capsys.readouterr().out
    assert "5 executors, 4 jobs, 2 seeds" in shown
    assert "sjf:0.5" in shown
    assert "mean JCT minus that of fifo, paired by seed" in shown


def test_one_seed_has_no_interval(capsys):
    one = ("--setting", "5/4", "--seeds", "300", "--policies", "fair,fifo")
    assert main(["dag", "compare", *one, "--json"]) == 0
    (difference,) = json.loads(capsys.readouterr().out)["differences"]
    assert (difference["low_s"], difference["high_s"], difference["no_interval"]) == (None, None, "one seed")
    assert main(["dag", "compare", *one]) == 0
    assert "none: one seed" in capsys.readouterr().out


def test_a_wrong_word_is_reported_before_anything_runs(capsys, tmp_path):
    (tmp_path / "file").write_text("")
    for words, message in (
        (["--policies", "fare"], "Did you mean 'fair'"),
        (["--setting", "50"], "write executors/jobs, as 50/200"),
        (["--seeds", "3-1"], "neither a seed nor a range"),
        (["--environment", "spark"], "spark-sched-sim"),
        (["--profiles", str(tmp_path / "none.json")], "cannot be read"),
        (["--gap", "0"], "give a positive one"),
        (["--gap", "inf"], "a mean gap of inf s"),
        (["--moving-delay", "nan"], "moving to another job cannot take nan s"),
        (["--moving-delay", "-1"], "cannot take -1 s"),
        (["--noise", "1"], "from 0 to below 1"),
        (["--seeds", "0-999999999"], "more than 100,000 seeds"),
        (["--setting", "50/0"], "has no jobs"),
        (["--setting", "5/4,5/4"], "named twice"),
        (["--policies", "fifo:0.5"], "give 0 or 1"),
        (["--resume", str(tmp_path / "file" / "folder"), *SMALL], "cannot store results"),
    ):
        assert main(["dag", "compare", *words]) == 1
        printed = capsys.readouterr().err
        assert message in printed
        assert len(printed.splitlines()) == 1


def test_options_that_would_be_ignored_are_refused(capsys):
    for words, message in (
        (["--weights", "decima.npz"], "neither is compared"),
        (["--weights", "decima.npz", "--policies", "fair,decima:own"], "neither is compared"),
        (["--batch", "--gap", "5"], "give one of them"),
    ):
        assert main(["dag", "compare", *words]) == 2
        assert message in capsys.readouterr().err


def test_help_names_trees_files_and_networks(capsys):
    assert main(["dag", "compare", "--help"]) == 0
    printed = capsys.readouterr().out
    for name in ("tree", "FILE", "decima:own", "decima-argmax:FILE", "equal-finish", "my-tree.txt", "--weights"):
        assert name in printed
    for name, spec in SCHEDULERS.items():
        assert name in printed, spec.summary


def test_a_batch_is_there_at_the_beginning_and_results_are_stored(capsys, tmp_path):
    episodes = ["--setting", "50/9", "--seeds", "300-301", "--batch"]
    words = ["dag", "compare", *episodes, "--policies", "fair,equal-finish", "--json", "--resume", str(tmp_path)]
    reported = []
    for _ in range(2):
        assert main(words) == 0
        reported.append(json.loads(capsys.readouterr().out))
    first, again = reported
    assert (first["batch"], first["gap_s"], first["episodes_reused"], again["episodes_reused"]) == (True, None, 0, 4)
    assert (again["rows"], again["differences"]) == (first["rows"], first["differences"])
    for row in first["rows"]:
        assert row["peak_jobs"] == 9
        assert row["makespan_bound_s"] <= row["makespan_s"] < 2 * row["makespan_bound_s"]


def test_jobs_that_a_scheduler_never_observed_are_reported(capsys, monkeypatch):
    monkeypatch.setattr(decima_schedulers, "make_scheduler", lambda text: replace(make_scheduler(text), most_jobs=3))
    assert main(["dag", "compare", *SMALL, "--policies", "fair", "--batch", "--json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["rows"][0]["unseen_jobs"] == 1
    assert "mirage: warning: fair considers only the first 3 jobs; in 5/4 up to 4 were in the system" in printed.err


@pytest.mark.slow
def test_two_processes_find_what_one_does(capsys):
    words = ["dag", "compare", *SMALL, "--policies", "fair,equal-finish", "--json"]
    reported = []
    for workers in ("1", "2"):
        assert main([*words, "--workers", workers]) == 0
        reported.append(json.loads(capsys.readouterr().out))
    for found in reported:
        for row in found["rows"]:
            del row["decision_us"]  # timed, and never twice the same
    assert reported[0]["rows"] == reported[1]["rows"]
    assert reported[0]["differences"] == reported[1]["differences"]
