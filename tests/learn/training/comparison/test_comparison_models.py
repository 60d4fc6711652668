"""Models of a comparison: equal files from any executor, and none trained twice."""

from dataclasses import astuple, replace

import pytest
from safetensors.numpy import load

from mirage.duration import DAY_S
from mirage.errors import ConfigurationError
from mirage.learn.hand_overs import HandOvers
from mirage.learn.regression.model_contract import TrainingSettings
from mirage.learn.training.comparison.comparison_models import ModelKey, ModelRecipe, slices_before, train_models
from mirage.learn.training.comparison.comparison_plan import ComparisonPlan
from mirage.learn.training.folds import month_begin_s, split
from mirage.learn.training.train_policy import CardDetails, Slices
from mirage.learn.training.trained_policy import read_trained, train_link_size
from mirage.study.executors.local_processes import LocalProcesses
from tests.support.made_up_hand_overs import made_up_hand_overs

BEGIN_S = 1_675_209_600 - 60 * DAY_S
PLAN = ComparisonPlan(methods=("correction", "forest"), policies=("what-if",), months=("2023-02",), seeds=(0, 1))


def work() -> ModelRecipe:
    data = made_up_hand_overs(58, nodes=8, begin_s=BEGIN_S)
    settings = TrainingSettings(trees=10, most_rows=600, threads=1)
    return ModelRecipe(data, "made-up", CardDetails("made-up", 8), settings)


def bytes_of(files):
    return {wanted: path.read_bytes() for wanted, path in files.items()}


@pytest.mark.slow
def test_two_processes_write_the_files_that_one_writes(tmp_path):
    alone = bytes_of(train_models(work(), PLAN, tmp_path / "alone", LocalProcesses(1)))
    shared = bytes_of(train_models(work(), PLAN, tmp_path / "shared", LocalProcesses(2)))
    assert alone == shared
    learnt = {b"".join(array.tobytes() for _, array in sorted(load(content).items())) for content in alone.values()}
    assert len(learnt) == 4  # every method, with every seed, learns something else


@pytest.mark.slow
def test_only_what_is_missing_is_trained(tmp_path):
    progress: list[tuple[int, int]] = []
    files = train_models(work(), PLAN, tmp_path, LocalProcesses(1), lambda *done: progress.append(done))
    assert progress == [(0, 4), (2, 4), (4, 4)]
    before = bytes_of(files)
    lost = next(iter(files.values()))
    times_ns = [path.stat().st_mtime_ns for path in files.values() if path != lost]
    lost.unlink()
    progress.clear()
    assert (
        bytes_of(train_models(work(), PLAN, tmp_path, LocalProcesses(1), lambda *done: progress.append(done))) == before
    )
    assert progress == [(3, 4), (4, 4)]
    assert [path.stat().st_mtime_ns for path in files.values() if path != lost] == times_ns


def test_what_a_month_is_trained_on_was_over_before_it():
    data, month_s = work().data, month_begin_s("2023-02")
    assert slices_before(data, "2023-02") == Slices(month_s - 20 * DAY_S, month_s)  # a third of the 60 days
    later = replace(data, window_s=data.window_s - 60 * DAY_S)
    assert slices_before(later, "2023-02") == Slices(month_s - 30 * DAY_S, month_s)  # a month at most


def test_a_method_may_have_epochs_of_its_own():
    recipe = replace(work(), settings=TrainingSettings(seed=9, epochs=7, trees=3), epochs={"moe": 2})
    assert recipe.settings_of("moe", 4) == TrainingSettings(seed=4, epochs=2, trees=3)
    assert recipe.settings_of("transformer", 5) == TrainingSettings(seed=5, epochs=7, trees=3)


def test_a_key_covers_all_that_determines_models():
    recipe = work()
    others = (
        replace(recipe, data_key="other"),
        replace(recipe, card=CardDetails("made-up", 9)),
        replace(recipe, settings=replace(recipe.settings, trees=11)),
        replace(recipe, epochs={"forest": 3}),
        replace(recipe, data=made_up_hand_overs(58, nodes=2, begin_s=BEGIN_S)),
    )
    keys = [one.key("2023-02", 0, ("forest",)) for one in (recipe, *others)]
    keys += [recipe.key("2023-03", 0, ("forest",)), recipe.key("2023-02", 1, ("forest",))]
    keys += [recipe.key("2023-02", 0, names) for names in (("correction",), ("forest", "correction"))]
    assert len(set(keys)) == len(keys)
    assert work().key("2023-02", 0, ("forest",)) == keys[0]
    assert (
        replace(recipe, settings=replace(recipe.settings, seed=5), epochs={"moe": 1}).key("2023-02", 0, ("forest",))
        == keys[0]
    )


def test_every_model_is_trained_for_all_link_sizes_with_its_seed(tmp_path):
    large, small = made_up_hand_overs(58, nodes=8, begin_s=BEGIN_S), made_up_hand_overs(58, nodes=2, begin_s=BEGIN_S)
    settings = TrainingSettings(rounds=2, most_rows=300, threads=1)
    recipe = ModelRecipe(HandOvers.joined([small, large]), "made-up", CardDetails("a trace", 5), settings)
    plan = ComparisonPlan(methods=("correction",), policies=("what-if",), months=("2023-02",), seeds=(3, 4))
    folder, progress = tmp_path / "new" / "models", []
    files = train_models(recipe, plan, folder, LocalProcesses(1), lambda *now: progress.append(now))
    assert progress == [(0, 2), (1, 2), (2, 2)]
    assert list(files) == [ModelKey("correction", "2023-02", 3), ModelKey("correction", "2023-02", 4)]
    assert sorted(folder.iterdir()) == sorted(files.values())  # steps are removed
    for (method, month, seed), path in ((astuple(key), path) for key, path in files.items()):
        assert path.name == f"{month}-{method}-seed{seed}-{recipe.key(month, seed, (method,))}.model"
        trained = read_trained(path)
        assert {nodes: part.method for nodes, part in trained.parts.items()} == {2: method, 8: method}
        assert (trained.chosen, trained.figures) == ({"by": "comparison", "month": month, "seed": seed}, {})
        assert (trained.trained_on.trace, trained.trained_on.until_s) == ("a trace", month_begin_s(month))
        assert trained.futures == 5
        for nodes, data in ((2, small), (8, large)):
            slices = split(data, *astuple(slices_before(recipe.data, month)))
            alone = train_link_size(method, *slices, replace(settings, seed=seed)).model.as_arrays()
            assert trained.parts[nodes].model.as_arrays()["trees"].tobytes() == alone["trees"].tobytes()
    contents = [path.read_bytes() for path in files.values()]
    assert contents[0] != contents[1]
    again: list[tuple[int, int]] = []
    assert train_models(recipe, plan, folder, LocalProcesses(1), lambda *now: again.append(now)) == files
    assert again == [(2, 2)]


def test_models_that_cannot_be_written_are_reported(tmp_path):
    (tmp_path / "models").write_text("a file")
    recipe = replace(work(), settings=TrainingSettings(rounds=1, most_rows=100))
    plan = replace(PLAN, methods=("correction",), seeds=(0,))
    with pytest.raises(ConfigurationError, match=r"^cannot (write|store) .*: (Not a directory|File exists)$"):
        train_models(recipe, plan, tmp_path / "models", LocalProcesses(1))
