"""The wait model: trained on a table, saved, loaded without training, queried."""

from dataclasses import replace

import numpy as np
import pytest

from mirage.errors import ConfigurationError, ModelFileError
from mirage.job_state import MISSING
from mirage.predict.model_file import ModelCard, TrainedOn, read_model_file, write_model_file
from mirage.predict.waits.boosted_waits import BoostingSettings
from mirage.predict.waits.rolling_forecast import LEVELS, RollingSettings
from mirage.predict.waits.wait_model import load_wait_model, train_wait_model
from mirage.trace.read_trace import read_trace
from mirage.trace.table import JobTable

pytest.importorskip("xgboost", reason="pip install mirage-hpc[predict]")
pytest.importorskip("safetensors", reason="pip install mirage-hpc[predict]")

DAY_S = 86_400
SETTINGS = RollingSettings(refit_s=10 * DAY_S, boosting=BoostingSettings(rounds=30, bags=1, blocks=2, step=0.2))


def made_up_table(n=1500, seed=0):
    """Twenty days of jobs; waits grow with nodes, and a third is in a slow partition."""
    rng = np.random.default_rng(seed)
    submit_s = 1_700_000_000 + np.sort(rng.integers(0, 20 * DAY_S, n))
    nodes, slow = 2 ** rng.integers(0, 5, n), rng.random(n) < 0.33
    wait_s = (10 ** (1.5 + 0.4 * np.log2(nodes) + slow + rng.normal(0, 0.2, n))).astype(np.int64)
    start_s = np.where(rng.random(n) < 0.95, submit_s + wait_s, MISSING)
    return JobTable.build(
        [str(k) for k in range(n)],
        submit_s=submit_s,
        start_s=start_s,
        end_s=np.where(start_s >= 0, start_s + 600, submit_s + 300),
        limit_s=np.full(n, 3600),
        nodes=nodes,
        partition=np.where(slow, "slow", "quick").tolist(),
        user=[f"u{k}" for k in rng.integers(0, 9, n)],
    )


TABLE = made_up_table()


@pytest.fixture(scope="module")
def model():
    return train_wait_model(TABLE, "made-up.csv", settings=SETTINGS)


@pytest.fixture(scope="module")
def path(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "waits.model"
    model.save(path)
    return path


def test_the_card_has_what_it_was_trained_on_and_how_well_it_did(model):
    assert (model.card.kind, model.card.trained_on.trace, model.card.trained_on.rows) == ("waits", "made-up.csv", 1500)
    assert model.card.trained_on.first_s == TABLE.submit_s.min()
    assert model.card.figures["within_x2"] > 0.6
    assert model.card.figures["coverage_80"] == pytest.approx(0.8, abs=0.1)
    assert 200 < model.card.figures["jobs"] < 400


def test_a_card_has_no_figures_if_no_held_out_job_has_started():
    late = TABLE.submit_s > np.quantile(TABLE.submit_s, 0.7)
    waiting = TABLE.with_columns(
        start_s=np.where(late, MISSING, TABLE.start_s), end_s=np.where(late, MISSING, TABLE.end_s)
    )
    assert train_wait_model(waiting, "made-up.csv", settings=SETTINGS).card.figures == {"jobs": 0.0}


def test_quantiles_rise_with_their_levels_and_with_the_nodes(model):
    sample = model.sample(TABLE)
    quantiles = model.quantiles_s(sample.inputs, np.array([0.1, 0.5, 0.9]), sample.size_class)
    assert np.all(np.diff(quantiles, axis=1) > 0)
    nodes = sample.inputs[:, 1]
    assert np.median(quantiles[nodes == 16, 1]) > 10 * np.median(quantiles[nodes == 1, 1])


def test_every_size_class_has_quantiles_of_its_own_and_an_unknown_one_those_of_all(model):
    scores = np.arange(len(model.scores))[:, None] + np.linspace(-0.1, 0.1, len(LEVELS))
    altered, inputs = replace(model, scores=scores), model.sample(TABLE).inputs[:3]
    quantiles = altered.quantiles_s(inputs, np.array([0.5]), np.array([0, 4, 999]))[:, 0]
    score = (np.log10(quantiles) - model.boosted.mean(inputs)) / model.boosted.spread(inputs)
    assert score == pytest.approx([0, 4, len(scores) - 1])
    assert altered.quantiles_s(inputs, np.array([0.5]))[0, 0] > quantiles[0]


def test_a_job_that_is_not_submitted_yet_waits_as_its_like(model):
    now_s = int(TABLE.submit_s.max()) + 60
    job = JobTable.build(["next"], submit_s=[now_s], nodes=[16], limit_s=[3600], partition=["slow"], user=["u1"])
    low, high = model.waits_of_next_s(TABLE, job, [0.05, 0.95])
    assert low < 10 ** (1.5 + 1.6 + 1) < high


def test_the_next_job_is_predicted_as_if_it_were_in_the_table(model):
    row = int(np.argsort(TABLE.submit_s)[-3])
    job = TABLE[[row]].with_columns(start_s=np.array([MISSING]), end_s=np.array([MISSING]))
    others = TABLE[np.arange(len(TABLE)) != row]
    request_s = int(job.submit_s[0])
    known = others.with_columns(
        start_s=np.where(others.start_s <= request_s, others.start_s, MISSING),
        end_s=np.where(others.end_s <= request_s, others.end_s, MISSING),
    )
    found = model.waits_of_next_s(known, job, [0.1, 0.5, 0.9])
    whole = model.sample(TABLE)
    expected = model.quantiles_s(whole.inputs[[-3]], [0.1, 0.5, 0.9], whole.size_class[[-3]])[0]
    assert found.tolist() == expected.tolist()


def test_a_loaded_model_predicts_alike(model, path):
    loaded, sample = load_wait_model(path), model.sample(TABLE)
    assert loaded.card == model.card
    np.testing.assert_array_equal(
        loaded.quantiles_s(sample.inputs, LEVELS, sample.size_class),
        model.quantiles_s(sample.inputs, LEVELS, sample.size_class),
    )


def test_levels_that_it_does_not_know_are_refused(model):
    with pytest.raises(ConfigurationError, match=r"0\.025 to 0\.975"):
        model.quantiles_s(model.sample(TABLE).inputs, np.array([0.99]))


def test_other_features_are_refused(model):
    with pytest.raises(ConfigurationError, match="needs 43"):
        model.quantiles_s(np.zeros((1, 3), dtype=np.float32), np.array([0.5]))


def test_too_few_jobs_are_refused():
    with pytest.raises(ConfigurationError, match=r"few\.csv: \d+ jobs"):
        train_wait_model(TABLE[:400], "few.csv")


def test_jobs_of_one_moment_are_refused():
    at_once = JobTable.build(range(600), submit_s=[DAY_S] * 600, start_s=[DAY_S + 60 + k for k in range(600)])
    with pytest.raises(ConfigurationError, match=r"within 1 s, .*; give a trace of some days"):
        train_wait_model(at_once, "burst.csv")


def test_a_file_without_its_trees_is_named(path, tmp_path):
    whole = read_model_file(path, "waits", 1)
    write_model_file(tmp_path / "m", whole.card, {"scores": whole.arrays["scores"]})
    with pytest.raises(ModelFileError, match=r"lacks 'mean_trees_0' of a wait model"):
        load_wait_model(tmp_path / "m")


def test_a_file_with_other_features_is_named(path, tmp_path):
    whole = read_model_file(path, "waits", 1)
    card = ModelCard("waits", 1, whole.card.features[1:], TrainedOn("x", 0, 1, 2), {}, whole.card.settings)
    write_model_file(tmp_path / "m", card, whole.arrays)
    with pytest.raises(ModelFileError, match="other features"):
        load_wait_model(tmp_path / "m")


@pytest.mark.slow
def test_the_intervals_hold_on_a_real_trace(shared_data):
    table = read_trace(shared_data / "mirage-ls6" / "ls6-a100.log.gz", timezone="America/Chicago").table
    settings = RollingSettings(refit_s=20 * DAY_S, boosting=BoostingSettings(bags=1, rounds=60))
    figures = train_wait_model(table, "ls6", settings=settings).card.figures
    assert [figures[f"coverage_{k}"] for k in (50, 80, 95)] == pytest.approx([0.5, 0.8, 0.95], abs=0.05)
    assert figures["spearman"] > 0.7
