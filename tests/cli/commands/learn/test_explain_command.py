"""``mirage explain``."""

import io
import json
from contextlib import redirect_stdout

import numpy as np
import pytest

from mirage.cli import main
from mirage.learn.explain.policy_explanation import TREE

pytest.importorskip("sklearn", reason="pip install mirage-hpc[learn]")
pytest.importorskip("pyarrow", reason="pip install mirage-hpc[learn]")

WINDOWS = ["--every", "12h", "--step", "2h", "--link-limit", "12:00:00", "--link-nodes", "2"]
MACHINE = ["-N", "8", "--discipline", "easy", "--workers", "1"]

RULE = """\
tree: 1
features:
    spare_p50: duration
answers: wait, submit
settings:
    futures: 4

if spare_p50 < 1h:
    submit
else:
    wait
"""


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """Forty days on eight nodes, with waits of hours now and then."""
    random = np.random.default_rng(3)
    path = tmp_path_factory.mktemp("trace") / "jobs.csv"
    lines = ["job_id,submit_s,elapsed_s,limit_s,nodes"]
    for k, submit_s in enumerate(np.sort(random.integers(0, 40 * 86_400, 820))):
        run_s = random.integers(600, 28_800)
        lines.append(f"{k},{submit_s},{run_s},{2 * run_s},{random.choice([1, 1, 1, 2, 4])}")
    path.write_text("\n".join(lines) + "\n")
    return str(path)


@pytest.fixture(scope="module")
def explained(trace, tmp_path_factory):
    """A rule explained from thirty windows: what is printed as JSON, and the file."""
    folder = tmp_path_factory.mktemp("tree")
    rule, tree = folder / "rule.txt", folder / "tree.txt"
    rule.write_text(RULE)
    options = [*MACHINE, *WINDOWS, "--start", "1970-01-08", "--windows", "30", "--futures", "4"]
    printed = io.StringIO()
    with redirect_stdout(printed):
        assert main(["explain", str(rule), trace, *options, "--leaves", "4", "--json", "-o", str(tree)]) == 0
    return json.loads(printed.getvalue()), tree


@pytest.mark.slow
def test_the_tree_is_a_policy_that_hands_over_as_was_printed(explained, trace, capsys):
    report, tree = explained
    assert tree.read_text() == report["tree"]
    assert (report["leaves"], report["fidelity"]["windows"]) == (2, 10)
    assert report["fidelity"]["near_hand_overs"] >= 0.8
    start = ["--start", report["held_out"]["start"], "--windows", str(report["held_out"]["windows"])]
    policies = f"reactive,what-if,{tree},oracle"
    assert main(["evaluate", trace, *MACHINE, *WINDOWS, *start, "--policies", policies, "--json"]) == 0
    evaluated = {row["policy"]: row for row in json.loads(capsys.readouterr().out)["rows"] if row["load"] == "all"}
    assert {row["cost_ratio"] for row in report["rows"]} == {1, 3}
    reported = {row["policy"]: row for row in report["rows"] if (row["load"], row["cost_ratio"]) == ("all", 1)}
    assert list(reported) == ["reactive", "what-if", report["policy"], TREE, "oracle"]
    assert evaluated[str(tree)] == reported[TREE] | {"policy": str(tree)}
    assert evaluated["what-if"] == reported["what-if"]
    assert 0 < reported[TREE]["lead_h"] < 12


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["what-if"], "give TRACE, or hand-overs of it with --data"),
        (["what-of", "jobs.csv"], "unknown policy 'what-of'. Did you mean 'what-if'?"),
        (["oracle", "jobs.csv"], "the oracle is the best moment in hindsight and decides nothing; name another policy"),
        (["holds:futures=4", "jobs.csv"], "holds:futures=4 revises queued links: it holds a queued link and"),
        (["./no-model", "jobs.csv"], "./no-model: no such file; mirage train makes one"),
        (["no.model", "jobs.csv"], "no.model: no such file; mirage train makes one"),
    ],
)
def test_what_cannot_be_explained_is_refused_before_the_work(arguments, message, capsys, tmp_path):
    assert main(["explain", *arguments, "-N", "8", "-o", str(tmp_path / "tree.txt")]) in (1, 2)
    assert message in capsys.readouterr().err
