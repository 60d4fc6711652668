"""Learning curves as event files, read back as TensorBoard reads them."""

from pathlib import Path

import numpy as np
import pytest

from mirage.errors import ConfigurationError
from mirage.learn.training.tensorboard_events import by_run, write_event_files

loader = pytest.importorskip(
    "tensorboard.backend.event_processing.event_file_loader", reason="pip install mirage-hpc[learn]"
)

CURVES = {
    "8/forest/tune": np.array([4.0, 2.5]),
    "8/forest/train": np.array([3.0]),
    "1/moe/dqn/loss": np.array([0.5, 0.25, 0.125]),
}


def test_curves_of_one_training_are_one_run() -> None:
    assert {run: list(of) for run, of in by_run(CURVES).items()} == {
        "8/forest": ["tune", "train"],
        "1/moe/dqn": ["loss"],
    }
    assert by_run(CURVES)["8/forest"]["tune"].tolist() == [4.0, 2.5]


def test_every_training_has_a_file_with_its_curves_by_round(tmp_path: Path) -> None:
    write_event_files(CURVES, tmp_path)
    found = {}
    for path in tmp_path.rglob("events.out.tfevents*"):
        run = str(path.parent.relative_to(tmp_path))
        for event in loader.LegacyEventFileLoader(str(path)).Load():
            for value in event.summary.value:
                assert event.wall_time == event.step
                found.setdefault(f"{run}/{value.tag}", []).append((event.step, value.simple_value))
    assert found == {name: list(enumerate(values.tolist())) for name, values in CURVES.items()}


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "curves").write_text("a file")
    with pytest.raises(ConfigurationError, match=rf"^cannot write learning curves to {tmp_path}/curves: .+"):
        write_event_files(CURVES, tmp_path / "curves")
