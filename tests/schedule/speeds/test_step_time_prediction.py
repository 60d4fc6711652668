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


def test_a_scaled_table_is_predicted_but_not_by_the_law() -> None:
    source, target = _table(0.1, 0.05, 0.4, bend=0.5), _table(0.2, 0.1, 0.8, bend=0.5)
    measured = [0, 11, 18, 26]
    both, law = predicted_s(target, [source_parts(source, target)], measured)
    assert both[measured] == pytest.approx(target.step_s[measured], rel=0.15)
    assert share_within(both, target, measured) > share_within(law, target, measured) + 0.1
    scaled = both**2 / np.maximum(law, 1e-9)  # the mean of both is geometric
    assert scaled == pytest.approx(target.step_s, rel=0.02)


def test_only_the_measured_step_times_are_used() -> None:
    source, target = _table(0.1, 0.05, 0.4), _table(0.3, 0.02, 0.3)
    measured = [0, 11, 18, 26]
    step_s = np.where(np.isin(np.arange(len(target.step_s)), measured), target.step_s, 99.0)
    hidden = StepTimes(target.placement, target.servers, target.gpus, target.local_batch, step_s, target.sync_s * 7)
    for given, other in zip(
        predicted_s(target, [source_parts(source, target)], measured),
        predicted_s(hidden, [source_parts(source, hidden)], measured),
    ):
        assert given.tolist() == other.tolist()
    others = [source, _table(0.2, 0.3, 0.9)]
    parts = [[source_parts(others[1], others[0])], [source_parts(others[0], others[1])]]
    assert choose_measured(target, others, parts, 5) == choose_measured(hidden, others, parts, 5)


def test_a_placement_that_a_table_lacks_is_taken_from_the_nearest_size() -> None:
    source, target = _table(0.1, 0.05, 0.4), _table(0.2, 0.1, 0.8)
    rows = [k for k, place in enumerate(source.placement) if place != "44"]
    fewer = StepTimes(
        tuple(source.placement[k] for k in rows), source.servers[rows], source.gpus[rows], source.local_batch[rows],
        source.step_s[rows], source.sync_s[rows],
    )  # fmt: skip
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
