"""``mirage distill``: a tree is shown, edited, checked and run from the command line."""

import json

import pytest
from click.testing import CliRunner

from mirage.cli.commands.dag.distill import distill
from mirage.dag.distilled.tree_policy import shipped_path
from mirage.errors import ConfigurationError

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


@pytest.fixture
def mine(tmp_path):
    file = tmp_path / "mine.txt"
    file.write_text(TREE)
    return str(file)


def said(*words):
    return CliRunner().invoke(distill, words, catch_exceptions=False).stdout


def test_the_shipped_tree_is_shown_as_it_lies_there():
    assert said("show") == shipped_path().read_text()


def test_rules_are_shown_by_score(mine):
    assert said("show", mine, "--rules") == "2: own\n1: not own and drains_in >= 35s\n-1: not own and drains_in < 35s\n"


def test_an_edit_shows_what_differs_and_writes_what_runs(mine, tmp_path):
    out = tmp_path / "other.txt"
    told = said("edit", mine, "drains_in < 35s -> drains_in < 1min", "11: -1 -> 0", "-o", str(out))
    assert [line for line in told.splitlines()[2:] if line[0] in "+-"] == [
        "-    if drains_in < 35s:",
        "-        -1",
        "+    if drains_in < 1min:",
        "+        0",
    ]
    assert out.read_text() == TREE.replace("35s", "1min").replace("-1", "0")
    with pytest.raises(ConfigurationError, match="from -4 to 4"):
        said("edit", mine, "cap: 0.25 1.5 -> cap: 9 1.5", "-o", str(tmp_path / "bad.txt"))
    assert not (tmp_path / "bad.txt").exists()


def test_a_check_tells_leaves_and_fidelity(mine):
    short = ("--setting", "10/5", "--seeds", "1")
    report = json.loads(said("check", mine, "--teacher", mine, *short, "--json"))
    assert (report["leaves"], report["depth"], report["asks"]) == (3, 2, ["own", "drains_in"])
    assert report["fidelity"]["own_states"]["stage"] == 1
    assert report["fidelity"]["mean_jct_s"]["10/5"] > 0


def test_a_tree_runs_beside_others(mine):
    told = json.loads(said("run", mine, "--beside", "tree", "--setting", "10/5", "--seeds", "1-2", "--json"))
    assert [row["policy"] for row in told["rows"]] == [mine, "tree"]


def test_a_tuned_tree_is_written(mine, tmp_path):
    out = str(tmp_path / "tuned.txt")
    short = ("--setting", "10/5", "--seeds", "1-2", "--changes", "5", "--numbers")
    told = json.loads(said("tune", mine, *short, "-o", out, "--json"))
    assert (told["tree"], told["tried"]) == (out, 5)
    assert said("check", out).startswith(f"{out}: ")
