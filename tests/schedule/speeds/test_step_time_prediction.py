"""Step times predicted from four measurements, on tables that follow the rules."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from mirage.errors import ConfigurationError, UnknownName
from mirage.schedule.speeds.profile_files import StepTimes
from mirage.schedule.speeds.step_time_prediction import (
    PROFILES,
    choose_measured,
    predict_tables,
    predicted_s,
    share_within,
    source_parts,
)
from mirage.schedule.speeds.step_time_ratios import KnownRatios, ScaledTable

pytest.importorskip("scipy")

PLACES = ("1", "2", "4", "13", "22", "44", "224")


def _table(compute: float, inside: float, across: float, bend: float = 0.0) -> StepTimes:
    """Step times with an exchange of other cost in a server than across servers."""
    rows = [(place, batch) for place in PLACES for batch in (8.0, 16.0, 32.0, 64.0)]
    gpus = np.array([sum(map(int, place)) for place, _ in rows])
    servers = np.array([len(place) for place, _ in rows])
    batch = np.array([size for _, size in rows])
    sync = np.where(gpus == 1, 0.0, np.where(servers == 1, inside, across)) * np.sqrt(gpus)
    step = compute * (1.0 + batch / 16 + bend * (batch / 16) ** 2)
    return StepTimes(tuple(place for place, _ in rows), servers, gpus, batch, step + sync, sync)


def _part(table: StepTimes, rows: list[int]) -> StepTimes:
    return StepTimes(
        tuple(table.placement[k] for k in rows), table.servers[rows], table.gpus[rows], table.local_batch[rows],
        table.step_s[rows], table.sync_s[rows],
    )  # fmt: skip


def _scaled(source: StepTimes, target: StepTimes) -> ScaledTable:
    """A table of the same model, without other models."""
    return ScaledTable.of(target, source_parts(source, target), KnownRatios({}, {}).prior("toy", "to", "from"))


def test_a_scaled_table_is_predicted_but_not_by_the_law() -> None:
    source, target = _table(0.1, 0.05, 0.4, bend=0.5), _table(0.2, 0.1, 0.8, bend=0.5)
    measured = [0, 11, 18, 26]
    found, law = predicted_s(target, [_scaled(source, target)], measured)
    assert found[measured] == pytest.approx(target.step_s[measured], rel=0.1)
    assert share_within(found, target, measured) > share_within(law, target, measured) + 0.1
    by_ratio = np.exp(_scaled(source, target).predicted(measured, target.step_s[measured])[0])
    scaled = (found / np.sqrt(by_ratio)) ** 4 / np.maximum(law, 1e-9)  # the mean is geometric
    assert scaled == pytest.approx(target.step_s, rel=0.02)


def test_only_the_measured_step_times_are_used() -> None:
    source, target = _table(0.1, 0.05, 0.4), _table(0.3, 0.02, 0.3)
    measured = [0, 11, 18, 26]
    step_s = np.where(np.isin(np.arange(len(target.step_s)), measured), target.step_s, 99.0)
    hidden = StepTimes(target.placement, target.servers, target.gpus, target.local_batch, step_s, target.sync_s * 7)
    for given, other in zip(
        predicted_s(target, [_scaled(source, target)], measured),
        predicted_s(hidden, [_scaled(source, hidden)], measured),
    ):
        assert given.tolist() == other.tolist()
    assert choose_measured(target, [_scaled(source, target)], 5) == choose_measured(
        hidden, [_scaled(source, hidden)], 5
    )


def test_the_chosen_rows_make_predictions_most_precise() -> None:
    source, target = _table(0.1, 0.05, 0.4), _table(0.2, 0.1, 0.8)
    scaled = _scaled(source, target)
    few, many = (choose_measured(target, [scaled], candidates, seed=3) for candidates in (1, 100))
    assert scaled.variances(many).mean() < scaled.variances(few).mean()
    assert {target.gpus[row] > 1 for row in many} == {target.servers[row] > 1 for row in many} == {False, True}
    with pytest.raises(ConfigurationError, match="a table needs four rows: on one GPU"):
        choose_measured(_part(target, [k for k in range(28) if target.gpus[k] > 1]), [])


def test_ratios_of_other_models_are_expected_of_a_new_one() -> None:
    """Type b exchanges gradients three times as slowly across servers, with each model."""
    tables = {}
    for k, model in enumerate(("x", "y", "z", "new")):
        slower = 3.0 * 1.05 ** (k - 1)
        tables[model, "a"] = _table(0.1 + 0.02 * k, 0.05, 0.2)
        tables[model, "b"] = _table(2 * (0.1 + 0.02 * k), 0.1, 0.4 * slower)
    parts = {
        (model, one, other): source_parts(tables[model, other], tables[model, one])
        for model, one in tables
        for other in ("a", "b")
        if one != other
    }
    ratios, target = KnownRatios(tables, parts), tables["new", "b"]
    scaled = ScaledTable.of(target, parts["new", "b", "a"], ratios.prior("new", "b", "a"))
    at_one_gpu = [0]
    learned = np.exp(scaled.predicted(at_one_gpu, target.step_s[at_one_gpu])[0])
    wide = ScaledTable.of(target, parts["new", "b", "a"], KnownRatios({}, {}).prior("new", "b", "a"))
    unlearned = np.exp(wide.predicted(at_one_gpu, target.step_s[at_one_gpu])[0])
    across = target.servers > 1
    assert np.abs(learned / target.step_s - 1)[across].max() < 0.15
    assert np.abs(unlearned / target.step_s - 1)[across].max() > 0.3
    assert (scaled.variances([0, 26]) <= scaled.variances(at_one_gpu) + 1e-12).all()


def test_a_placement_that_a_table_lacks_is_taken_from_the_nearest_size() -> None:
    source, target = _table(0.1, 0.05, 0.4), _table(0.2, 0.1, 0.8)
    fewer = _part(source, [k for k, place in enumerate(source.placement) if place != "44"])
    at = target.placement.index("44")
    step, inside, across = source_parts(fewer, target)[at]
    assert (step, inside) == (pytest.approx(0.15), 0.0)
    assert across == pytest.approx(0.4 * np.sqrt(8)), "224 has as many GPUs"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Profiles of one model on three types."""
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "validation-8.csv").write_text("epoch\n")
    for name, table in (("a", _table(0.1, 0.05, 0.4)), ("b", _table(0.2, 0.2, 0.5)), ("c", _table(0.5, 0.1, 0.9))):
        with open(tmp_path / "toy" / f"placements-{name}.csv", "w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["placement", "local_bsz", "step_time", "sync_time"])
            rows.writerows(zip(table.placement, table.local_batch, table.step_s, table.sync_s))
    return tmp_path


def test_tables_of_a_folder(folder: Path) -> None:
    found = predict_tables(folder, candidates=8)
    assert [(one.model, one.gpu_type, one.rows) for one in found] == [("toy", name, 24) for name in "abc"]
    assert all(len(set(one.measured)) == PROFILES for one in found)
    assert all(one.within > 0.6 and one.median_error < 0.1 for one in found)
    with pytest.raises(UnknownName, match=r"GPU type of toy 'd'\. Known: a, b, c"):
        predict_tables(folder, ["a", "d"])
    with pytest.raises(ConfigurationError, match="no models; give a folder of profiles"):
        predict_tables(folder / "toy")
    path = folder / "toy" / "placements-c.csv"
    path.write_text("".join(line for line in path.read_text().splitlines(True) if not line.startswith("1,")))
    with pytest.raises(
        ConfigurationError, match=r"toy, GPU type c: a table needs four rows: .*; name others with --ty"
    ):
        predict_tables(folder)
