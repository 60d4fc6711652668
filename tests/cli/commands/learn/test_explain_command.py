"""``mirage explain``."""

import json

import numpy as np
import pytest

from mirage.cli import main
from mirage.learn.explain.explanation import TREE

pytest.importorskip("sklearn", reason="pip install mirage-hpc[learn]")
pytest.importorskip("pyarrow", reason="pip install mirage-hpc[learn]")

WINDOWS = ["--every", "12h", "--step", "1h", "--link-limit", "6:00:00", "--link-nodes", "2"]
MACHINE = ["-N", "8", "--discipline", "easy", "--workers", "1"]


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """Forty days on eight nodes, with waits of hours now and then."""
    random = np.random.default_rng(3)
    path = tmp_path_factory.mktemp("trace") / "jobs.csv"
    lines = ["job_id,submit_s,elapsed_s,limit_s,nodes"]
    for k, submit_s in enumerate(np.sort(random.integers(0, 40 * 86_400, 1400))):
        run_s = random.integers(600, 28_800)
        lines.append(f"{k},{submit_s},{run_s},{2 * run_s},{random.choice([1, 1, 1, 2, 4])}")
    path.write_text("\n".join(lines) + "\n")
    return str(path)


@pytest.fixture(scope="module")
def explained(trace, tmp_path_factory):
    """``what-if`` explained from thirty windows: what is printed as JSON, and the file."""
    tree = tmp_path_factory.mktemp("tree") / "tree.txt"
    asked = [*MACHINE, *WINDOWS, "--start", "1970-01-10", "--windows", "30", "--futures", "4"]
    with pytest.MonkeyPatch.context() as patch:
        said = []
        patch.setattr("click.echo", lambda message, **_: said.append(message))
        assert main(["explain", "what-if", trace, *asked, "--leaves", "4", "--json", "-o", str(tree)]) == 0
    return json.loads(said[-1]), tree


@pytest.mark.slow
def test_the_tree_is_a_policy_that_costs_what_was_printed(explained, trace, capsys):
    report, tree = explained
    assert tree.read_text() == report["tree"]
    held_out = report["fidelity"]["windows"]
    assert (held_out, report["policy"], report["cost_ratio"] if "cost_ratio" in report else 1) == (10, "what-if", 1)
    start = ["--start", "1970-01-20", "--windows", str(held_out)]
    policies = f"reactive,what-if,{tree},oracle"
    assert main(["evaluate", trace, *MACHINE, *WINDOWS, *start, "--policies", policies, "--json"]) == 0
    evaluated = {row["policy"]: row for row in json.loads(capsys.readouterr().out)["rows"] if row["load"] == "all"}
    told = {row["policy"]: row for row in report["rows"] if row["load"] == "all"}
    assert list(told) == ["reactive", "what-if", TREE, "oracle"]
    assert evaluated[str(tree)] == told[TREE] | {"policy": str(tree)}
    assert evaluated["what-if"] == told["what-if"]


@pytest.mark.slow
def test_what_was_made_is_found_again_and_printed(explained, trace, capsys, tmp_path):
    _, tree = explained
    data = ["--data", f"{tree}.data", "--leaves", "2"]
    assert main(["explain", "lead:2", trace, *MACHINE, *data, "-o", str(tmp_path / "lead.txt")]) == 0
    out, err = capsys.readouterr()
    assert "remaining < " in out
    assert "lead:2 at 1:1: 2 leaves, fitted to" in out
    assert "100 %" in out
    assert "tree written to" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["what-if"], "give TRACE, or hand-overs of it with --data"),
        (["what-of", "jobs.csv"], "unknown policy 'what-of'. Did you mean 'what-if'?"),
        (["oracle", "jobs.csv"], "the oracle is the best moment in hindsight and decides nothing; name another policy"),
        (["./no-model", "jobs.csv"], "./no-model: no such file; mirage train makes one"),
    ],
)
def test_what_cannot_be_explained_is_refused_before_the_work(arguments, said, capsys, tmp_path):
    assert main(["explain", *arguments, "-N", "8", "-o", str(tmp_path / "tree.txt")]) in (1, 2)
    assert said in capsys.readouterr().err
