"""``mirage trace generate`` and ``mirage trace fit``."""

import re

import numpy as np
import pytest

from mirage.cli import main
from mirage.cli.commands.trace.generate import LOAD_ROWS
from mirage.trace.read_trace import read_trace
from mirage.trace.workload.generate_workload import generate_workload
from mirage.trace.workload.workload_json import builtin_model, read_model
from mirage.trace.write_trace import write_trace


@pytest.fixture
def month(tmp_path):
    path = tmp_path / "month.csv"
    assert main(["trace", "generate", "--days", "30", "--seed", "4", "-o", str(path)]) == 0
    return path


def test_what_is_written_is_what_the_library_draws(tmp_path, capsys):
    path = tmp_path / "month.csv"
    assert main(["trace", "generate", "--days", "30", "--seed", "4", "-o", str(path)]) == 0
    table = read_trace(path).table
    expected = generate_workload(builtin_model("lonestar6-like"), days=30, seed=4)
    assert table.elapsed_s.tolist() == expected.elapsed_s.tolist()
    assert table.user.values() == expected.user.values()
    out, err = capsys.readouterr()
    assert out == ""
    assert f"{len(expected):,} jobs" in err
    assert "lonestar6-like" in err


def test_same_options_same_bytes(month, tmp_path):
    again = tmp_path / "again.csv"
    assert main(["trace", "generate", "--seed", "4", "-o", str(again)]) == 0
    assert again.read_bytes() == month.read_bytes()


@pytest.mark.parametrize("suffix", [".swf", ".csv.gz", ".parquet"])
def test_other_formats(tmp_path, suffix):
    path = tmp_path / f"t{suffix}"
    assert main(["trace", "generate", "--jobs", "50", "--start", "2025-03-01", "-o", str(path)]) == 0
    table = read_trace(path).table
    assert len(table) == 50
    assert (table.run_s >= 1).all()


def test_a_model_of_few_users_is_a_warning(month, tmp_path, capsys):
    lines = month.read_text().splitlines()
    user = lines[0].split(",").index("user")
    for users, warned in ((3, True), (5, False)):
        rows = (line.split(",") for line in lines[1:])
        few = [",".join([*row[:user], f"u{k % users}", *row[user + 1 :]]) for k, row in enumerate(rows)]
        (tmp_path / "few.csv").write_text("\n".join([lines[0], *few]) + "\n")
        assert main(["trace", "fit", str(tmp_path / "few.csv"), "-N", "76", "-o", str(tmp_path / "few.json")]) == 0
        assert ("the model describes 3 users, so it shows how each of them works" in capsys.readouterr().err) is warned


def test_fit_then_generate_like_it(month, tmp_path, capsys):
    model, out = tmp_path / "ours.json", tmp_path / "like.csv"
    assert main(["trace", "fit", str(month), "-N", "76", "--name", "ours", "-o", str(model)]) == 0
    assert read_model(model).name == "ours"
    capsys.readouterr()
    assert main(["trace", "generate", "--like", str(model), "--days", "7", "--check", "-o", str(out)]) == 0
    printed = capsys.readouterr()
    assert "like ours" in printed.err
    assert printed.out.splitlines()[0].split() == ["marginal", "like", "new", "verdict"]
    assert not any("wait" in line for line in printed.out.splitlines())  # a model has no jobs to simulate
    assert any(line.startswith("busy nodes") for line in printed.out.splitlines())


def ramp(path):
    """Ten weeks of which the first four bring few jobs."""
    steady = generate_workload(builtin_model("lonestar6-like"), days=70, seed=2, nodes=40, load=0.85)
    week = (steady.submit_s - steady.submit_s[0]) // (7 * 86_400)
    write_trace(steady[(week >= 4) | (np.arange(len(steady)) % 9 == 0)], path)
    return path


def test_like_a_trace_with_a_ramp_is_like_its_steady_part(tmp_path, capsys):
    trace, out, model = ramp(tmp_path / "ramp.csv"), tmp_path / "like.csv", tmp_path / "m.json"
    assert main(["trace", "generate", "--like", str(trace), "-N", "40", "--days", "60", "--check", "-o", str(out)]) == 0
    printed = capsys.readouterr()
    assert "is fitted to its steady part from 2024-01-29 to 2024-03-1" in printed.err
    assert "in the 4 weeks before it, jobs need" in printed.err
    lines = {line[:32].strip(): line[32:].split(None, 2) for line in printed.out.splitlines()}
    assert lines["busy nodes"][2] == "good"
    assert float(lines["busy nodes"][0]) == pytest.approx(0.85 * 40, rel=0.1)
    real, new, verdict = lines["mean wait h, EASY"]
    assert 0.2 < float(new) / float(real) < 5
    assert (verdict == "good") == (max(float(new), float(real)) < 2 * min(float(new), float(real)))
    assert main(["trace", "fit", str(trace), "-N", "40", "-o", str(model)]) == 0
    assert read_model(model).load == pytest.approx(0.85, rel=0.1)
    assert "steady part" in capsys.readouterr().err
    assert main(["trace", "fit", str(trace), "-N", "40", "--from", "2024-01-01", "-o", str(model)]) == 0
    assert read_model(model).load < 0.7
    assert "steady part" not in capsys.readouterr().err


def test_a_load_of_its_own_is_not_judged(month, tmp_path, capsys):
    out = tmp_path / "like.csv"
    options = ["--like", str(month), "-N", "76", "--load", "0.4", "--check"]
    assert main(["trace", "generate", *options, "-o", str(out)]) == 0
    lines = {line[:32].strip(): line[32:].split(None, 2) for line in capsys.readouterr().out.splitlines()}
    assert {lines[name][2] for name in LOAD_ROWS} == {"changed by --load"}
    assert lines["share ending at once"][2] == "good"


def test_like_a_trace(month, tmp_path, capsys):
    out = tmp_path / "like.csv"
    assert main(["trace", "generate", "--like", str(month), "-N", "40", "--days", "7", "-o", str(out)]) == 0
    assert "on 40 nodes" in capsys.readouterr().err


def test_fit_fills_in_what_the_trace_does_not_declare(tmp_path):
    bare, model = tmp_path / "bare.csv", tmp_path / "m.json"
    main(["trace", "generate", "--days", "9", "-o", str(tmp_path / "t.csv")])
    lines = (tmp_path / "t.csv").read_text().splitlines()
    head = lines[0].split(",")
    columns = [head.index(c) for c in ("job_id", "submit_s", "elapsed_s", "limit_s", "nodes", "user")]
    bare.write_text("\n".join(",".join(line.split(",")[k] for k in columns) for line in lines) + "\n")
    options = ["--gpus-per-node", "4", "--cpus-per-node", "64", "-p", "gpu", "-N", "76"]
    assert main(["trace", "fit", str(bare), *options, "--from", "2024-01-02", "-o", str(model)]) == 0
    read = read_model(model)
    assert (read.gpus_per_node, read.cpus_per_node, read.partitions) == (4, 64, ("gpu",))


def test_what_the_trace_declares_or_exceeds_is_a_warning(month, tmp_path, capsys):
    options = ["--gpus-per-node", "4", "--cpus-per-node", "64", "-p", "gpu", "-N", "3"]
    assert main(["trace", "fit", str(month), *options, "-o", str(tmp_path / "m.json")]) == 0
    warnings = [line for line in capsys.readouterr().err.splitlines() if line.startswith("mirage: warning: ")]
    for what in ("GPUs, so --gpus-per-node 4", "CPUs, so --cpus-per-node 64", "partitions, so --partition gpu"):
        assert f"mirage: warning: {month} has {what} is not used" in warnings
    most = re.compile(r".* has jobs of \d+ nodes, and --nodes is 3; give the nodes of the cluster")
    assert sum(bool(most.fullmatch(line)) for line in warnings) == 1
    assert main(["trace", "fit", str(month), "-p", "", "-o", str(tmp_path / "m.json")]) == 2
    assert "the name of --partition is empty; name a partition" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "status", "complaint"),
    [
        (["--days", "1", "--jobs", "1"], 2, "exclude each other"),
        (["--start", "soon"], 2, "is no date"),
        (["--days", "-1"], 1, "days is -1"),
        (["--like", "lonestar6"], 1, "Did you mean 'lonestar6-like'?"),
        (["--seed", "-1"], 2, "seed"),
    ],
)
def test_refusals(tmp_path, capsys, options, status, complaint):
    out = tmp_path / "x.csv"
    assert main(["trace", "generate", *options, "-o", str(out)]) == status
    assert complaint in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize("command", ["generate", "fit"])
def test_help_ends_with_examples(capsys, command):
    assert main(["trace", command, "--help"]) == 0
    text = capsys.readouterr().out
    assert "Examples:\n" in text
    assert text.rstrip().splitlines()[-1].strip().startswith("mirage trace generate")


def test_options_for_a_trace_are_refused_with_a_workload_model(tmp_path, capsys):
    arguments = ["trace", "generate", "--days", "1", "-o", str(tmp_path / "new.csv")]
    for option in (["--timezone", "UTC"], ["--skip-bad-lines"]):
        assert main([*arguments, *option]) == 2
        assert f"{option[0]} is for a trace, and lonestar6-like is a workload model" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--days", "1e9"], "days is 1e+09; give at most 36,500"),
        (["--days", "2", "--load", "1e9"], "load is 1e+09; give at most 100"),
        (["--jobs", "9", "--load", "1e-300"], "load is 1e-300; give at least 0.001"),
        (["--jobs", "9", "--cap-days", "-2"], "the longest run time (--cap-days) is -2; give a number above 0"),
    ],
)
def test_gangs_beyond_any_cluster_are_refused(tmp_path, capsys, options, words):
    assert main(["trace", "generate", "--gangs", *options, "-o", str(tmp_path / "new.csv")]) == 1
    assert words in capsys.readouterr().err
