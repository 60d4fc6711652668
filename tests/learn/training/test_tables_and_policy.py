"""A rolling origin reads off the data what the policy file does in an evaluation."""

import numpy as np
import pytest

from mirage.duration import DAY_S, HOUR_S
from mirage.learn.dataset.make_data_set import make_data_set
from mirage.learn.dataset.read_data_set import read_hand_overs
from mirage.learn.dataset.recipe import Recipe
from mirage.learn.regression.model_contract import TrainingSettings, inputs_at
from mirage.learn.training.method_trials import submitted_rows
from mirage.learn.training.train_policy import CardDetails, Slices, train_policy
from mirage.policy.cost import Cost
from mirage.provision.evaluation.candidate import Candidate
from mirage.provision.evaluation.episode import Scenario
from mirage.provision.evaluation.evaluate import evaluate
from mirage.provision.evaluation.evaluation_protocol import EvaluationProtocol
from mirage.provision.evaluation.evaluation_study import Study
from mirage.provision.link_size import LinkSize
from mirage.sim.cluster import Cluster
from mirage.sim.workload import workload
from mirage.trace.table import JobTable

for package in ("xgboost", "safetensors", "pyarrow"):
    pytest.importorskip(package, reason="pip install mirage-hpc[learn]")

FUTURES = 8
PROTOCOL = EvaluationProtocol.warm(5 * DAY_S, windows=14, every_s=DAY_S, step_s=3 * HOUR_S)
LINK = LinkSize(2, 24 * HOUR_S)


@pytest.fixture(scope="module")
def scenario():
    """Forty days of two users on eight nodes, with waits of hours now and then."""
    random, n = np.random.default_rng(3), 900
    run_s = random.integers(600, 8 * HOUR_S, n)
    table = JobTable.build(
        range(n),
        submit_s=np.sort(random.integers(0, 40 * DAY_S, n)),
        elapsed_s=run_s,
        limit_s=run_s * random.integers(1, 4, n),
        nodes=random.choice([1, 1, 1, 2, 4], n),
        user=[f"user{k % 2}" for k in range(n)],
    )
    return Scenario(Cluster.pool(8), workload(table, Cluster.pool(8)), "easy")


@pytest.fixture(scope="module")
def data(scenario, tmp_path_factory):
    folder = tmp_path_factory.mktemp("hand-overs") / "data"
    make_data_set(Recipe(Study(scenario, PROTOCOL, (LINK,), (), 0), FUTURES), folder)
    return read_hand_overs(folder)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["correction", "xgboost-2023"])
def test_a_policy_submits_as_in_the_tables(scenario, data, tmp_path, method):
    cost = Cost(2, 1)
    slices = Slices(18 * DAY_S, 30 * DAY_S)
    settings = TrainingSettings(rounds=30, trees=10)
    trained = train_policy({2: method}, data, slices, CardDetails("made-up", FUTURES), settings)
    trained.save(tmp_path / "model")
    part = trained.parts[2]
    rows = submitted_rows(part.model.submits(inputs_at(data), cost), data)
    policy = str(tmp_path / "model")
    trials = evaluate(scenario, PROTOCOL, [LINK], [policy], [cost]).trials[2]
    decided_s = [trial.episode.decisions_s[trial.chosen[Candidate(policy, cost).key]] for trial in trials]
    assert decided_s == data.time_s[rows].tolist()
    assert len({int(left) for left in data.remaining_s[rows]}) > 2  # not all alike
