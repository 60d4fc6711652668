"""Models of a comparison: equal files from any executor, and none trained twice."""

import pytest
from safetensors.numpy import load

from mirage.duration import DAY_S
from mirage.learn.regression.model_contract import TrainingSettings
from mirage.learn.training.comparison.comparison_models import ModelRecipe, train_models
from mirage.learn.training.comparison.comparison_plan import ComparisonPlan
from mirage.learn.training.train_policy import CardDetails
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
