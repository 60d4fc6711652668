"""Models of a comparison: the same files whoever trains them, and none trained twice."""

import pytest
from made_up_hand_overs import made_up_hand_overs
from safetensors.numpy import load

from mirage.duration import DAY_S
from mirage.executors.processes import Processes
from mirage.learn.regression.model import TrainingSettings
from mirage.learn.training.comparison.models import Work, train_models
from mirage.learn.training.comparison.plan import Plan
from mirage.learn.training.train import Said

BEGIN_S = 1_675_209_600 - 60 * DAY_S
PLAN = Plan(methods=("correction", "forest"), policies=("what-if",), months=("2023-02",), seeds=(0, 1))


def work() -> Work:
    data = made_up_hand_overs(58, nodes=8, begin_s=BEGIN_S)
    settings = TrainingSettings(trees=10, most_rows=600, threads=1)
    return Work(data, "made-up", Said("made-up", 8), settings)


def bytes_of(files):
    return {wanted: path.read_bytes() for wanted, path in files.items()}


@pytest.mark.slow
def test_two_processes_write_the_files_that_one_writes(tmp_path):
    alone = bytes_of(train_models(work(), PLAN, tmp_path / "alone", Processes(1)))
    shared = bytes_of(train_models(work(), PLAN, tmp_path / "shared", Processes(2)))
    assert alone == shared
    learnt = {b"".join(array.tobytes() for _, array in sorted(load(content).items())) for content in alone.values()}
    assert len(learnt) == 4  # every method, with every seed, learns something else


@pytest.mark.slow
def test_only_what_is_missing_is_trained(tmp_path):
    told: list[tuple[int, int]] = []
    files = train_models(work(), PLAN, tmp_path, Processes(1), lambda *done: told.append(done))
    assert told == [(0, 4), (2, 4), (4, 4)]
    before = bytes_of(files)
    lost = next(iter(files.values()))
    kept = [path.stat().st_mtime_ns for path in files.values() if path != lost]
    lost.unlink()
    told.clear()
    assert bytes_of(train_models(work(), PLAN, tmp_path, Processes(1), lambda *done: told.append(done))) == before
    assert told == [(3, 4), (4, 4)]
    assert [path.stat().st_mtime_ns for path in files.values() if path != lost] == kept
