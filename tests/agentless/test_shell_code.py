"""The compiled tree decides as the tree, in each shell, on ten thousand states."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import asdict

import numpy as np
import pytest

from mirage.agentless.link_script import MOST_BYTES, AgentlessSpec, link_script
from mirage.agentless.shell_code import decide_function, measured_names
from mirage.agentless.shell_features import FEATURES, NAMES, MeasuredState
from mirage.agentless.shell_tree import ANSWERS, MOST_LEAVES, default_tree
from mirage.distill.tree import Leaf, Node, Split, Tree
from mirage.distill.units import Unit

SHELLS = [words for words in (["dash"], ["bash", "--posix"], ["busybox", "sh"], ["sh"]) if shutil.which(words[0])]
STATES = 10_000
MEASURED = tuple(asdict(MeasuredState(1, 1, 1, 1, 1, 1, 1, 1)))

DRIVER = """\
while read -r {names}; do
decide
echo "$answer"
done
"""


def states(rng: np.random.Generator) -> list[MeasuredState]:
    """States on all scales, zeros and the thresholds' neighbours among them."""
    high = np.array([400_000, 400_000, 500_000, 1_001, 2_000, 5_000, 1_100, 4])
    scale = rng.choice([0.0, 0.001, 0.03, 1.0], (STATES, len(high)), p=[0.03, 0.17, 0.3, 0.5])
    rows = np.floor(rng.random((STATES, len(high))) * high * scale).astype(int)
    rows[:, 3], rows[:, 6] = np.maximum(rows[:, 3], 1), np.maximum(rows[:, 6], 1)
    rows[:, 7] = rows[:, 7] > 0
    return [MeasuredState(*map(int, row)) for row in rows]


def random_tree(rng: np.random.Generator, given: list[MeasuredState], leaves: int) -> Tree:
    """A tree with thresholds among the values of states, or half a unit above."""
    rows = [state.row() for state in given[:500]]

    def node(count: int) -> Node:
        if count == 1:
            return Leaf(str(rng.choice(ANSWERS)))
        name = str(rng.choice(NAMES))
        threshold = float(rows[rng.integers(len(rows))][name]) + float(rng.choice([0.0, 0.5]))
        below = int(rng.integers(1, count))
        return Split(name, threshold, node(below), node(count - below))

    return Tree(FEATURES, ANSWERS, node(leaves))


@pytest.mark.parametrize("words", SHELLS, ids=" ".join)
@pytest.mark.parametrize("shape", ["random", "default"])
def test_the_shell_decides_as_the_tree_on_ten_thousand_states(words: list[str], shape: str) -> None:
    rng = np.random.default_rng(7)
    given = states(rng)
    tree = random_tree(rng, given, MOST_LEAVES) if shape == "random" else default_tree()
    code = decide_function(tree) + DRIVER.format(names=" ".join(MEASURED))
    lines = "\n".join(" ".join(map(str, asdict(state).values())) for state in given) + "\n"
    done = subprocess.run([*words, "-c", code], input=lines, capture_output=True, text=True, timeout=120, check=True)
    assert done.stderr == ""
    wanted = [str(tree.leaf_of({k: float(v) for k, v in state.row().items()}).value) for state in given]
    assert done.stdout.split() == wanted
    assert min(wanted.count(answer) for answer in ANSWERS) > 100  # both answers are tried


def test_only_what_the_tree_tests_is_measured() -> None:
    tree = Tree(FEATURES, ANSWERS, Split("idle_links", 1.0, Leaf("submit"), Leaf("wait")))
    assert measured_names(tree) == {"idle_nodes"}
    assert measured_names(default_tree()) == {"slurm_wait", "use"}
    script = link_script(AgentlessSpec("chain", "key", "/f", "job.sh", {"time": "10"}), tree)
    assert "may_test" not in script
    assert "behind" not in script
    assert "plan=$" not in script
    assert "sinfo" in script


@pytest.mark.parametrize("words", SHELLS, ids=" ".join)
def test_the_largest_script_is_small_and_every_shell_reads_it(words: list[str]) -> None:
    rng = np.random.default_rng(1)
    tree = random_tree(rng, states(rng), MOST_LEAVES)
    assert measured_names(tree) == {"remaining", "elapsed", "slurm_wait", "use", "pending_jobs", "idle_nodes"}
    spec = AgentlessSpec("chain", "key", "/f", "job.sh", {"comment": "it's 5 o'clock", "time": "2-00:00:00"}, ("a b",))
    for chosen in (tree, default_tree()):
        script = link_script(spec, chosen)
        assert len(script.encode()) <= MOST_BYTES
        assert "@" not in script.replace('"$@"', "").replace("B:USR2@", "")
        done = subprocess.run([*words, "-n"], input=script, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, "")


def test_features_have_the_units_of_their_names() -> None:
    row = MeasuredState(7200, 100, 9000, 400, 5, 17, 8, 1).row()
    assert tuple(row) == NAMES
    assert (row["expected_wait"], row["spare"], row["cover"], row["idle_links"]) == (3600, 3600, 1999, 2)
    assert {feature.name for feature in FEATURES if feature.unit is Unit.DURATION} == {
        "remaining", "elapsed", "slurm_wait", "expected_wait", "spare",
    }  # fmt: skip
