"""``mirage dag compare``."""

import json

from mirage.cli import main

SMALL = ("--setting", "5/4", "--seeds", "300-301")


def test_rows_and_differences_as_json(capsys):
    assert main(["dag", "compare", *SMALL, "--policies", "fair,capped:0.25:1.5", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [(row["policy"], row["seeds"]) for row in told["rows"]] == [("fair", 2), ("capped:0.25:1.5", 2)]
    for row in told["rows"]:
        assert 0 < row["mean_jct_s"] < row["p95_jct_s"] <= row["makespan_s"]
        assert row["decision_us"] >= 0
    assert told["differences"][0]["against"] == "fair"
    assert (told["environment"], told["profiles"]) == ("spark-sched-sim", None)


def test_a_table_for_people(capsys):
    assert main(["dag", "compare", *SMALL, "--policies", "fifo,sjf:0.5", "--noise", "0.1", "--moving-delay", "0"]) == 0
    shown = capsys.readouterr().out
    assert "5 executors, 4 jobs, 2 seeds" in shown
    assert "sjf:0.5" in shown
    assert "mean JCT less that of fifo, paired by seed" in shown


def test_one_seed_tells_no_interval(capsys):
    one = ("--setting", "5/4", "--seeds", "300", "--policies", "fair,fifo")
    assert main(["dag", "compare", *one, "--json"]) == 0
    (difference,) = json.loads(capsys.readouterr().out)["differences"]
    assert (difference["low_s"], difference["high_s"], difference["no_interval"]) == (None, None, "one seed")
    assert main(["dag", "compare", *one]) == 0
    assert "none: one seed" in capsys.readouterr().out


def test_a_wrong_word_is_told_before_anything_runs(capsys, tmp_path):
    for words, message in (
        (["--policies", "fare"], "Did you mean 'fair'"),
        (["--setting", "50"], "write executors/jobs, as 50/200"),
        (["--seeds", "3-1"], "neither a seed nor a range"),
        (["--environment", "spark"], "spark-sched-sim"),
        (["--profiles", str(tmp_path / "none.json")], "cannot be read"),
        (["--gap", "0"], "give a positive one"),
    ):
        assert main(["dag", "compare", *words]) == 1
        assert message in capsys.readouterr().err
