"""Edge cases on the command line: ``--case`` of several commands, ``mirage distill mend``."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from mirage.cli import main
from mirage.cli.commands.dag.dag_compare import compare
from mirage.cli.commands.distill import distill
from mirage.cli.commands.distill.distill_options import EpisodeOptions
from mirage.dag.distilled.tree_policy import shipped_path
from mirage.dag.mending import line_mending
from mirage.dag.workload.edge_cases import EDGE_CASES
from mirage.distill.editing import difference, edited
from mirage.errors import ConfigurationError, UnknownName

TREE = """tree: 1
features:
    own: flag
    drains_in: duration
values: number
settings:
    cap: 0 0.5
    spare: no

if own:
    1
else:
    if drains_in < 35s:
        0
    else:
        1
"""

PAGE = Path(__file__).parents[4] / "docs" / "reports" / "edge-cases.md"


def output_of(*words):
    return CliRunner().invoke(distill, words, catch_exceptions=False).stdout


def test_every_case_is_named_by_the_help():
    (printed,) = [option.help for option in compare.params if option.name == "case"]
    for name in EDGE_CASES:
        assert name in printed


def test_schedulers_are_compared_on_a_case(capsys):
    words = ("dag", "compare", "--setting", "5/6", "--seeds", "3-4", "--policies", "fair", "--json")
    rows = {}
    for case in ("large-job", "gap-15", "noise-0.5", "moving-delay-10", "split-stage", None):
        assert main([*words, *([] if case is None else ["--case", case])]) == 0
        report = json.loads(capsys.readouterr().out)
        rows[case] = report["rows"][0]["mean_jct_s"]
        assert report["case"] == case
        case = EDGE_CASES.get(case)
        assert report["gap_s"] == (25 if case is None or case.gap_s is None else case.gap_s)
        assert (report["moving_s"], report["noise"]) == ((case and case.moving_s) or 2.0, (case and case.noise) or 0.0)
    assert len(set(rows.values())) == len(rows)
    assert main([*words[:-1], "--case", "large-job"]) == 0
    assert capsys.readouterr().out.startswith("large-job: one job of the largest size")


def test_what_a_case_sets_is_not_given_again(capsys):
    for words in (
        ("--case", "gap-15", "--gap", "15"),
        ("--case", "executors-25", "--setting", "25/100"),
        ("--case", "noise-0.5", "--noise", "0"),
        ("--case", "moving-delay-0", "--moving-delay", "3"),
        ("--case", "large-job", "--batch"),
    ):
        assert main(["dag", "compare", *words]) == 2
        assert f"--case {words[1]} defines {words[2]} already" in capsys.readouterr().err
    with pytest.raises(UnknownName, match="Did you mean 'gap-15'"):
        output_of("run", "--case", "gap15")


def test_a_setting_is_named_once(capsys, mine):
    for words in (["dag", "compare"], ["distill", "run", mine]):
        assert main([*words, "--setting", "5/6,7/8,5/6"]) == 1
        assert "the setting '5/6' is named twice" in capsys.readouterr().err


def test_what_resumes_is_of_the_same_jobs():
    plans = [
        EpisodeOptions(None, ("5/6",), "1-2", None, None, None, case).plan() for case in (None, "split-stage", "gap-15")
    ]
    assert plans[0] != plans[1] != plans[2] != plans[0]
    assert plans[2] == EpisodeOptions(None, ("5/6",), "1-2", 15.0, None, None, None).plan()


def test_a_tree_is_checked_run_and_tuned_on_a_case(mine, tmp_path):
    short = ("--setting", "10/8", "--seeds", "1-5", "--case", "large-job", "--json")
    report = json.loads(output_of("check", mine, *short))
    row = json.loads(output_of("run", mine, "--policies", "fair", *short))["rows"][0]
    assert report["mean_jct_s"]["10/8"] == pytest.approx(row["mean_jct_s"])
    assert report["makespan_s"]["10/8"] == pytest.approx(row["makespan_s"])
    out = str(tmp_path / "tuned.txt")
    tuned = json.loads(output_of("tune", mine, *short, "--changes", "60", "-o", out))
    after = json.loads(output_of("check", out, *short))
    for name in ("mean_jct_s", "makespan_s"):
        assert (tuned["before"][name], tuned[name]) == (report[name], after[name])
    assert tuned["mean_jct_s"]["10/8"] / report["mean_jct_s"]["10/8"] == pytest.approx(tuned["cost"])


SHORT = ("--setting", "5/6", "--seeds", "1-6", "--report-seeds", "11-16")


def test_a_mended_tree_is_reported_written_and_shown(mine, tmp_path):
    out, page = tmp_path / "mended", tmp_path / "page.md"
    words = ("mend", mine, "--case", "gap-15", *SHORT, "-o", str(out), "--report", str(page))
    (case,) = json.loads(output_of(*words, "--json"))["cases"]
    assert (case["case"], case["setting"], case["helps"]) == ("gap-15", "5/6", True)
    written = (out / "gap-15.txt").read_text()
    assert written == edited(TREE, [case["change"]])[0]
    assert case["diff"] == difference(TREE, written, mine)
    assert case["diff"] in page.read_text()
    before = json.loads(output_of("check", mine, *SHORT[:2], "--seeds", "11-16", "--case", "gap-15", "--json"))
    after = json.loads(output_of("check", str(out / "gap-15.txt"), *SHORT[:2], "--seeds", "11-16", "--case", "gap-15",
                            "--json"))  # fmt: skip
    for key, name in (("mean_jct", "mean_jct_s"), ("makespan", "makespan_s")):
        assert case["reported"][key]["before_s"] == pytest.approx(before[name]["5/6"])
        assert case["reported"][key]["after_s"] == pytest.approx(after[name]["5/6"])
    printed = output_of(*words)
    assert case["change"] in printed
    assert "makespan" in printed
    with pytest.raises(ConfigurationError, match="the seed 4 is in --seeds and in --report-seeds"):
        output_of("mend", mine, "--seeds", "1-4", "--report-seeds", "4-9")


def test_an_interrupted_mending_resumes_after_the_last_case(mine, tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    words = ("mend", mine, "--case", "gap-15,gap-45", *SHORT, "--report", str(page))
    find, done = line_mending.mended, []

    def stops(*arguments):
        if done:
            raise KeyboardInterrupt
        done.append(find(*arguments))
        return done[0]

    with monkeypatch.context() as patch:
        patch.setattr(line_mending, "mended", stops)
        assert "the same command resumes" in CliRunner().invoke(distill, words).stderr
    assert not page.exists()
    with pytest.raises(ConfigurationError, match="seeds was '1-6' and is '1-3'"):
        output_of(*words, "--seeds", "1-3")
    monkeypatch.setattr(line_mending, "mended", lambda *arguments: done[0])
    printed = output_of(*words)
    assert printed.count(done[0].change) >= 2
    assert page.read_text().count("## gap-") == 2
    assert not Path(f"{page}.checkpoint").exists()


def test_the_edits_of_the_page_can_be_made_in_the_shipped_tree():
    text, page = shipped_path().read_text(), PAGE.read_text()
    for name in EDGE_CASES:
        (row,) = [line for line in page.splitlines() if line.startswith(f"| `{name}` |")]
        change = row.split("|")[2].strip().strip("`")
        assert f"## {name}\n" in page
        if change != "none":
            assert f"```diff\n{difference(text, edited(text, [change])[0], 'tree')}```" in page
