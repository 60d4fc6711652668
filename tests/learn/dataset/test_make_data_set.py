"""Data sets by forking: exact outcomes, views at decisions, equal data from any executor."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mirage.duration import HOUR_S, MINUTE_S
from mirage.errors import ConfigurationError
from mirage.forecast.forecaster import Forecaster
from mirage.learn.dataset.make_data_set import make_data_set
from mirage.learn.dataset.read_data_set import known_by, read_hand_overs
from mirage.learn.dataset.recipe import Recipe
from mirage.learn.dataset.shards import DataSetFolder
from mirage.learn.features.forecast_features import forecast_of
from mirage.learn.features.hand_over_features import feature_names, features_of
from mirage.learn.features.queue_history import queue_history
from mirage.learn.features.repeats import repeats_of
from mirage.learn.hand_overs import QUEUE_COLUMNS, HandOvers
from mirage.policy.view import View
from mirage.provision.evaluation.candidate import window_seed
from mirage.provision.evaluation.episode import Episode, play, warm_simulations


@pytest.fixture(scope="module")
def folder(small_recipe: Recipe, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("data") / "set"
    made = make_data_set(small_recipe, place)
    assert (made.shards, made.reused) == (4, 0)
    return place


def played(recipe: Recipe, link: int, windows: int) -> list[tuple[Episode, list[View]]]:
    """Windows played by themselves, and the views of their decisions."""
    found = []
    for window, sim in warm_simulations(recipe.study.scenario, recipe.study.protocol, range(windows)):
        views: list[View] = []
        found.append((play(sim, recipe.study.protocol, recipe.study.links[link], window, views.append), views))
    return found


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_outcomes_are_those_of_the_episodes(small_recipe: Recipe, folder: Path) -> None:
    rows = read_hand_overs(folder, link_nodes=[2])
    edges = rows.windows()
    assert len(edges) == 6
    for (episode, _), first, last in zip(played(small_recipe, 1, 5), edges[:-1], edges[1:]):
        window = rows[first:last]
        assert set(window.window_s) == {episode.submitted_s}
        np.testing.assert_array_equal(window.time_s, episode.decisions_s)
        np.testing.assert_array_equal(window.outcome_s, episode.outcome_s)
        np.testing.assert_array_equal(window.remaining_s, episode.ends_s - episode.decisions_s)
        assert set(window.wait_s) == {episode.started_s - episode.submitted_s}
    assert rows.outcome_s.max() > 0


@pytest.mark.parametrize("step_s", [HOUR_S, 25 * MINUTE_S])
def test_a_row_shows_what_a_policy_sees_at_the_decision(small_recipe: Recipe, tmp_path: Path, step_s: int) -> None:
    study = small_recipe.study
    recipe = replace(
        small_recipe,
        study=replace(study, protocol=replace(study.protocol, windows=2, step_s=step_s), seed=3),
        futures=4,
    )
    make_data_set(recipe, tmp_path)
    rows = read_hand_overs(tmp_path)
    assert rows.names == feature_names(forecast=True)
    for link, nodes in enumerate((1, 2)):
        mine = rows[rows.link_nodes == nodes]
        place = 0
        for episode, views in played(recipe, link, 2):
            forecaster = Forecaster(4, seed=window_seed(3, nodes, episode.submitted_s), discipline="easy")
            for observed in views:
                history = mine.history(np.array([place]))[0, :, :QUEUE_COLUMNS]
                np.testing.assert_array_equal(history, queue_history(observed))
                assert mine.time_s[place] == observed.now_s
                np.testing.assert_array_equal(mine.repeats[place], repeats_of(observed))
                if place % 4 == 0:
                    forecast = forecast_of(forecaster.of(observed), observed.chain)
                    np.testing.assert_array_equal(mine.features[place], features_of(observed, forecast)[0])
                place += 1
            assert mine.remaining_s[place] == 0
            assert np.isfinite(mine.features[place]).all()
            place += 1
        assert place == len(mine)
    assert rows.snapshots[:, 0].max() > 1
    assert np.isfinite(rows.repeats).any()


def test_a_data_set_without_repeats_is_read(small_recipe: Recipe, folder: Path, tmp_path: Path) -> None:
    older, rows = DataSetFolder(tmp_path), read_hand_overs(folder)
    (tmp_path / "manifest.json").write_bytes((folder / "manifest.json").read_bytes())
    for shard in small_recipe.shards():
        whole = DataSetFolder(folder).read(shard.number, small_recipe.shard_s)
        older.write(shard, small_recipe.shard_s, "older", replace(whole, repeats=None))
    read = read_hand_overs(tmp_path)
    assert read.repeats is None
    np.testing.assert_array_equal(read.features, rows.features)


def test_finished_shards_are_reused_and_others_made(small_recipe: Recipe, folder: Path, tmp_path: Path) -> None:
    whole = files(folder)
    for name, content in whole.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / ".rows-x.parquet.77.part").write_bytes(b"cut off")
    rows = sorted(tmp_path.glob("rows-*"))
    rows[0].unlink()  # its snapshots are there, as after a kill between the two
    rows[1].write_bytes(rows[1].read_bytes()[:100])
    last = small_recipe.shards()[2]
    DataSetFolder(tmp_path).write(
        last, small_recipe.shard_s, "another", DataSetFolder(folder).read(last.number, small_recipe.shard_s)
    )
    progress: list[tuple[int, int]] = []
    made = make_data_set(small_recipe, tmp_path, progress=lambda *now: progress.append(now))
    assert (made.shards, made.reused) == (4, 1)
    assert (progress[0], progress[-1]) == ((1, 5), (5, 5))
    (tmp_path / ".rows-x.parquet.77.part").unlink()
    assert files(tmp_path) == whole


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda recipe: replace(recipe, futures=8), "futures None, now 8"),
        (lambda recipe: replace(recipe, study=replace(recipe.study, seed=5)), "seed 0, now 5"),
        (lambda recipe: replace(recipe, study=replace(recipe.study, links=recipe.study.links[:1])), "link_nodes"),
    ],
)
def test_a_folder_of_another_recipe_is_refused(small_recipe: Recipe, folder: Path, change, named: str) -> None:
    before = files(folder)
    with pytest.raises(ConfigurationError, match=named):
        make_data_set(change(small_recipe), folder)
    assert files(folder) == before


def test_a_folder_of_something_else_is_refused(small_recipe: Recipe, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("!")
    with pytest.raises(ConfigurationError, match="no data set"):
        make_data_set(small_recipe, tmp_path)
    with pytest.raises(ConfigurationError, match="is not a data set"):
        read_hand_overs(tmp_path)


def test_a_folder_with_a_name_that_is_no_utf_8_is_refused(small_recipe: Recipe, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="its name is not UTF-8; name another"):
        make_data_set(small_recipe, tmp_path / os.fsdecode(b"\xffD"))
    assert not any(tmp_path.iterdir())


def test_a_data_set_that_lacks_shards_is_not_read(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_bytes((folder / "manifest.json").read_bytes())
    with pytest.raises(ConfigurationError, match="lacks 4 of its 4 shards"):
        read_hand_overs(tmp_path)
    manifest = json.loads((folder / "manifest.json").read_text()) | {"schema": 99}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ConfigurationError, match="schema 99"):
        read_hand_overs(tmp_path)


def test_rows_are_chosen_by_what_was_known(folder: Path) -> None:
    rows = read_hand_overs(folder)
    middle_s = int(np.unique(rows.window_s)[2])
    assert read_hand_overs(folder, since_s=middle_s).window_s.min() == middle_s
    early = read_hand_overs(folder, until_s=middle_s)
    assert 0 < len(early) < len(rows)
    assert (early.time_s + early.remaining_s + early.outcome_s).max() <= middle_s
    with pytest.raises(ConfigurationError, match="no rows"):
        read_hand_overs(folder, until_s=0)


def test_a_window_is_known_when_its_last_link_has_started() -> None:
    def column(*values: int) -> np.ndarray:
        return np.array(values, dtype=np.int64)

    rows = HandOvers(
        column(0, 0, 9), column(1, 1, 1), column(5, 5, 5), column(0, 0, 0), column(5, 10, 14), column(5, 0, 0),
        column(-3, 7, 0), np.zeros((3, 0), np.float32), (), np.zeros((0, QUEUE_COLUMNS), np.float32), column(0, 0, 0),
    )  # fmt: skip
    assert known_by(rows, 16).tolist() == [False, False, True]
    assert known_by(rows, 17).tolist() == [True, True, True]


def test_labels_alone_are_the_same_labels(small_recipe: Recipe, folder: Path, tmp_path: Path) -> None:
    make_data_set(replace(small_recipe, views=False), tmp_path)
    labels, rows = read_hand_overs(tmp_path), read_hand_overs(folder)
    np.testing.assert_array_equal(labels.outcome_s, rows.outcome_s)
    assert (labels.features.shape[1], len(labels.snapshots)) == (0, 0)
