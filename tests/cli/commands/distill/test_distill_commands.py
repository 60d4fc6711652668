"""``mirage distill``: a tree is shown, edited, checked and run from the command line."""

import ast
import json
import re
from functools import partial
from importlib import import_module
from pathlib import Path

import pytest
from click.testing import CliRunner

from mirage import source_digest
from mirage.cli import main
from mirage.cli.commands.distill import distill, tree_file
from mirage.dag.decima.decima_schedulers import PUBLISHED_NAME
from mirage.dag.distilled import small_changes, tuning
from mirage.dag.distilled.methods import tree_methods
from mirage.dag.distilled.methods.optimal import OptimalSettings
from mirage.dag.distilled.tree_policy import shipped_path
from mirage.dag.workload.tpch import QUERIES, SIZES
from mirage.errors import ConfigurationError, ModelFileError

TREE = """tree: 1
features:
    own: flag
    drains_in: duration
values: number
settings:
    cap: 0.25 1.5

if not own:
    if drains_in < 35s:
        -1
    else:
        1
else:
    2
"""


def output_of(*words):
    return CliRunner().invoke(distill, words, catch_exceptions=False).stdout


def test_the_shipped_tree_is_shown_as_it_lies_there():
    assert output_of("show") == shipped_path().read_text()


def test_rules_are_shown_by_score(mine):
    assert (
        output_of("show", mine, "--rules")
        == "2: own\n1: not own and drains_in >= 35s\n-1: not own and drains_in < 35s\n"
    )


def test_an_edit_shows_what_differs_and_writes_what_runs(mine, tmp_path):
    out = tmp_path / "other.txt"
    printed = output_of("edit", mine, "drains_in < 35s -> drains_in < 1min", "11: -1 -> 0", "-o", str(out))
    assert [line for line in printed.splitlines()[2:] if line[0] in "+-"] == [
        "-    if drains_in < 35s:",
        "-        -1",
        "+    if drains_in < 1min:",
        "+        0",
    ]
    assert out.read_text() == TREE.replace("35s", "1min").replace("-1", "0")
    with pytest.raises(ConfigurationError, match="from -4 to 4"):
        output_of("edit", mine, "cap: 0.25 1.5 -> cap: 9 1.5", "-o", str(tmp_path / "bad.txt"))
    assert not (tmp_path / "bad.txt").exists()


def test_an_edit_may_begin_with_a_negative_number(mine):
    assert "+        0\n" in output_of("edit", mine, "-1 -> 0")


def test_an_edit_that_changes_nothing_is_reported(mine):
    printed = CliRunner().invoke(distill, ["edit", mine, "drains_in < 35s -> drains_in < 35s"], catch_exceptions=False)
    assert (printed.stdout, printed.stderr) == ("", f"mirage: nothing differs: {mine} has these lines already\n")
    printed = CliRunner().invoke(distill, ["edit", mine, "drains_in < 35s -> drains_in < 0min 35s"])
    assert "decides as before" in printed.stderr
    assert "35s" in printed.stdout


def test_what_is_no_tree_is_reported_with_what_to_do(tmp_path):
    for command in ("run", "check", "show"):
        with pytest.raises(ConfigurationError, match=r"'fair' is a scheduler.*mirage dag compare --policies fair,tree"):
            output_of(command, "fair")
        with pytest.raises(ConfigurationError, match=r"there is no file .*none.txt.*mirage distill fit"):
            output_of(command, str(tmp_path / "none.txt"))


def test_a_check_reports_the_executor_rule_and_when_jobs_end(mine):
    printed = output_of("check", mine)
    assert "executor rule: cap 0.25 1.5, most 100 %" in printed
    assert f"mirage distill run {mine}" in printed
    printed = output_of("check", mine, "--teacher", mine, "--setting", "10/5", "--seeds", "1")
    assert re.search(r"mean time from arrival to end: 10/5 [\d.]+ s; makespan: 10/5 \d+ s", printed)


@pytest.mark.parametrize("options", [("--setting", "10/5", "--seeds", "1"), ("--setting", "10/5", "--gap", "5")])
def test_a_check_plays_the_episodes_that_its_options_describe(mine, options):
    report = json.loads(output_of("check", mine, *options, "--json"))
    assert 0 < report["mean_jct_s"]["10/5"] < report["makespan_s"]["10/5"]
    assert "mean time from arrival to end: 10/5 " in output_of("check", mine, *options)
    with pytest.raises(ConfigurationError, match="the noise is 7"):
        output_of("check", mine, *options, "--noise", "7")


def test_a_check_reports_leaves_and_fidelity(mine):
    short = ("--setting", "10/5", "--seeds", "1")
    report = json.loads(output_of("check", mine, "--teacher", mine, *short, "--json"))
    assert (report["leaves"], report["depth"], report["asks"]) == (3, 2, ["own", "drains_in"])
    assert report["fidelity"]["own_states"]["stage"] == 1
    assert 0 < report["fidelity"]["mean_jct_s"]["10/5"] < report["fidelity"]["makespan_s"]["10/5"]


def test_a_tree_runs_with_others(mine):
    report = json.loads(output_of("run", mine, "--policies", "tree", "--setting", "10/5", "--seeds", "1-2", "--json"))
    assert [row["policy"] for row in report["rows"]] == [mine, "tree"]


def test_a_tree_runs_that_has_the_name_of_a_scheduler(mine, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fifo").write_text(TREE)
    report = json.loads(output_of("run", "fifo", "--policies", mine, "--setting", "10/5", "--seeds", "1-2", "--json"))
    assert report["rows"][0]["policy"] == "tree:fifo"
    assert report["rows"][0]["mean_jct_s"] == report["rows"][1]["mean_jct_s"]


def test_a_tuned_tree_is_written(mine, tmp_path):
    out = str(tmp_path / "tuned.txt")
    short = ("--setting", "10/5", "--seeds", "1-2", "--changes", "5", "--numbers")
    report = json.loads(output_of("tune", mine, *short, "-o", out, "--json"))
    assert (report["tree"], report["tried"]) == (out, 5)
    assert output_of("check", out).startswith(f"{out}: ")
    useless = tmp_path / "useless.txt"
    useless.write_text(Path(mine).read_text().replace("        -1", "        1"))
    output_of("tune", str(useless), *short[:-3], "--changes", "0", "--prune", "-o", out)
    assert "drains_in" not in output_of("check", out)


def test_a_tuning_shows_what_it_changed_alone(tmp_path):
    remarked, out = tmp_path / "remarked.txt", tmp_path / "out.txt"
    swapped = TREE[TREE.index("    if drains_in") : TREE.index("else:\n    2")]
    remarked.write_text(TREE[: TREE.index("if not own")] + f"if own:  # mine\n    2\nelse:\n{swapped}")
    short = ("--setting", "10/5", "--seeds", "1-2", "--numbers", "-o", str(out), "--changes")
    assert output_of("tune", str(remarked), *short, "0").startswith("before: ")
    assert out.read_text() == remarked.read_text()
    printed = output_of("tune", str(remarked), *short, "30")
    assert "own" not in "".join(re.findall(r"^[-+] *\w.*", printed, re.M))
    assert "# mine" not in out.read_text()


def test_a_tuning_refuses_what_it_cannot_do(mine, tmp_path):
    link = tmp_path / "link.txt"
    link.symlink_to(mine)
    for out in (mine, str(link)):
        with pytest.raises(ConfigurationError, match=r"is the tree to tune.*name another file"):
            output_of("tune", mine, "-o", out)
    with pytest.raises(ConfigurationError, match="has 3 leaves, and --leaves allows 2; give --leaves 3 or more"):
        output_of("tune", mine, "--leaves", "2", "-o", str(tmp_path / "out.txt"))


@pytest.mark.parametrize("name", ["distill_fit", "tune"])
def test_what_is_stored_of_a_command_depends_on_all_code_that_it_calls(name):
    command = import_module(f"mirage.cli.commands.distill.{name}")
    followed = source_digest._closure(command._CODE)
    calls = ast.walk(ast.parse(Path(command.__file__).read_text()))
    called = {call.module for call in calls if isinstance(call, ast.ImportFrom)}
    assert {name for name in called if name.startswith("mirage.dag.distilled")} <= set(followed)


def test_the_edits_of_the_help_can_be_made_in_the_shipped_tree():
    changes = re.findall(r"'(.+ -> .+)'", tree_file.edit.epilog)
    assert len(changes) == 3
    for change in changes:
        assert output_of("edit", "tree", change).count("\n-") == 1  # the line that differs


def test_a_teacher_gets_the_weights_that_lie_next_to_the_profiles(mine, tmp_path):
    profiles, weights = tmp_path / "profiles.json", tmp_path / PUBLISHED_NAME
    measured = {name: {"5": [9]} for name in ("fresh_durations", "first_wave", "rest_wave")}
    job = {"adjacency": [[0]], "task_duration_ms": {"0": measured}}
    profiles.write_text(json.dumps({f"{size}/q{query}": job for size in SIZES for query in range(1, QUERIES + 1)}))
    weights.write_text("none")  # to be seen to be read
    short = ("--teacher", "decima", "--profiles", str(profiles), "--setting", "2/4", "--seeds", "1-2")
    for command in (("check", mine), ("fit", "-o", str(tmp_path / "out.txt"))):
        with pytest.raises(ModelFileError, match=PUBLISHED_NAME):
            output_of(*command, *short)


SHORT = ("--setting", "10/6", "--seeds", "1-2")


def interrupted(*words):
    printed = CliRunner().invoke(distill, words)
    assert printed.exit_code == 1  # as click has it; the whole command line makes it 130
    return printed.stderr


@pytest.mark.slow
def test_an_interrupted_tuning_resumes_as_if_it_had_not_been(mine, tmp_path, monkeypatch):
    whole, out = str(tmp_path / "whole.txt"), str(tmp_path / "out.txt")
    report = json.loads(output_of("tune", mine, *SHORT, "--changes", "62", "-o", whole, "--json"))
    with monkeypatch.context() as patch:
        patch.setattr(tuning, "changed", stops_after(small_changes.changed, 52))
        stderr = interrupted("tune", mine, *SHORT, "--changes", "62", "-o", out)
    assert f"{out}.checkpoint; the same command resumes" in stderr
    assert output_of("check", out).startswith(out)  # the best so far
    with pytest.raises(ConfigurationError, match="seed was 0 and is 4"):
        output_of("tune", mine, *SHORT, "--changes", "62", "--seed", "4", "-o", out)
    assert json.loads(output_of("tune", mine, *SHORT, "--changes", "62", "-o", out, "--json")) == {
        **report,
        "tree": out,
    }
    assert Path(out).read_text() == Path(whole).read_text()
    assert not Path(f"{out}.checkpoint").exists()


@pytest.mark.slow
def test_an_interrupted_fit_resumes_after_its_last_tree(mine, tmp_path, monkeypatch):
    whole, out = str(tmp_path / "whole.txt"), str(tmp_path / "out.txt")
    command = ("fit", "--teacher", "sjf", *SHORT, "--leaves", "3,6", "--rounds", "1", "--json", "-o")
    report = json.loads(output_of(*command, whole))
    fit = tree_methods.TimedLearner.__call__
    with monkeypatch.context() as patch:
        patch.setattr(tree_methods.TimedLearner, "__call__", stops_after(fit, 3))
        assert f"{out}.checkpoint; the same command resumes" in interrupted(*command, out)
    assert not Path(out).exists()
    monkeypatch.setattr(
        tree_methods.TimedLearner, "__call__", stops_after(fit, 1)
    )  # one is left, and no other is fitted again
    again = json.loads(output_of(*command, out))
    assert [row.pop("fit_s") is None for row in again["students"]] == [True, True]
    assert all(row.pop("fit_s") > 0 for row in report["students"])
    assert again == {**report, "tree": out}
    assert Path(out).read_text() == Path(whole).read_text()


def stops_after(function, calls):
    left = iter(range(calls))

    def stopping(*arguments, **named):
        if next(left, None) is None:
            raise KeyboardInterrupt
        return function(*arguments, **named)

    return stopping


@pytest.mark.slow
def test_a_tree_reports_whether_it_is_proven_to_be_optimal(tmp_path, monkeypatch):
    pytest.importorskip("pystreed", reason="pip install mirage-hpc[distill]")
    out = str(tmp_path / "student.txt")
    command = ("fit", "--teacher", "sjf", "--method", "optimal", "--rounds", "0", "--setting", "10/5", "--seeds", "1-2")
    report = json.loads(output_of(*command, "--leaves", "2", "-o", out, "--json"))
    assert [row["proven"] for row in report["students"]] == [True]
    monkeypatch.setattr(tree_methods, "optimal", partial(tree_methods.optimal, settings=OptimalSettings(limit_s=0.2)))
    report = CliRunner().invoke(distill, [*command, "--leaves", "2,32", "-o", out], catch_exceptions=False)
    first, last = [line for line in report.stdout.splitlines() if line.startswith("optimal, ")]
    assert ", depth 1, fitted in " in first
    assert ", not proven to be optimal, fitted in " in last
    assert "mirage: optimal: not proven to be optimal: the solver stopped after" in report.stderr


@pytest.mark.slow
def test_methods_are_fitted_next_to_each_other_and_drawn(tmp_path):
    pytest.importorskip("sklearn", reason="pip install mirage-hpc[learn]")
    out, plot = tmp_path / "student.txt", tmp_path / "frontier.svg"
    short = ("--setting", "10/5", "--seeds", "1-3", "--leaves", "2,3", "--rounds", "0", "--plot", str(plot), "--json",
             "--rule", "tree")  # fmt: skip
    report = json.loads(output_of("fit", "--teacher", "sjf", "--method", "cart,trustee", *short, "-o", str(out)))
    rows = report["students"]
    assert [row["method"] for row in rows] == ["cart", "cart", "trustee", "trustee"]
    assert [row["leaves"] <= most for row, most in zip(rows, (2, 3, 2, 3), strict=True)] == [True] * 4
    assert all(row["fit_s"] > 0 and row["proven"] is None for row in rows)
    assert all(0 < row["mean_jct_s"]["10/5"] < row["makespan_s"]["10/5"] for row in rows)
    assert output_of("check", str(out)).startswith(f"{out}: {rows[-1]['leaves']} leaves")
    assert "    crowded_cap: 0.1 7\n" in out.read_text()
    drawn = plot.read_text()
    assert drawn.count("<circle") == 2 + 2 * len(rows)
    assert "cart, 2 leaves" in drawn
    with pytest.raises(ConfigurationError, match=r"must end in \.svg"):
        output_of("fit", "--teacher", "sjf", "--plot", str(tmp_path / "frontier.gif"), "-o", str(out))


@pytest.mark.parametrize(
    "words",
    [
        ("edit", "tree", "drains_in < 45s -> drains_in < 1min"),
        ("combine", "tree", "tree", "--above", "20 %"),
        ("tune", "tree"),
        ("fit", "--teacher", "fair"),
    ],
)
def test_no_tree_is_written_under_the_name_of_the_one_that_ships(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["distill", *words, "-o", "tree"]) == 1
    assert "tree is the tree that ships with Mirage, not a file; name another file" in capsys.readouterr().err
    assert not (tmp_path / "tree").exists()


def test_a_combined_tree_does_not_replace_one_that_it_is_made_of(tmp_path, capsys):
    mine = tmp_path / "mine.txt"
    mine.write_text(CliRunner().invoke(distill, ["show"]).stdout)
    arguments = ["distill", "combine", str(mine), "tree", "--above", "20 %", "-o", str(mine)]
    assert main(arguments) == 1
    assert "it is the file that is read; name another" in capsys.readouterr().err
    assert "crowded2_" not in mine.read_text()


@pytest.mark.parametrize("cases", ["large-job", "all,large-job"])
def test_mending_does_not_replace_the_tree(cases, tmp_path, capsys):
    mine = tmp_path / "large-job.txt"
    mine.write_text(CliRunner().invoke(distill, ["show"]).stdout)
    for output in (["--report", str(mine)], ["-o", str(tmp_path)]):
        assert main(["distill", "mend", f"tree:{mine}", "--case", cases, *output]) == 1
        assert "it is the file that is read; name another" in capsys.readouterr().err
