"""Panels of learning curves: what is lost, gained and closed stand on scales of their own."""

import numpy as np
import pytest

from mirage.report.picture_file import write_picture
from mirage.report.training.report_folder import learning_curves, panels_of

CURVES = {
    "8/transformer/pretrain/tune": np.array([0.4, 0.3]),
    "8/transformer/pretrain/loss": np.array([0.3, 0.2]),
    "8/transformer-pg/ppo/reward_h": np.array([-8.0, -0.5]),
    "8/transformer-pg/ppo/value_loss": np.array([5.0, 0.1]),
    "8/transformer-pg/ppo/closed_0.25": np.array([0.1, 0.2]),
    "8/transformer-pg/ppo/closed_0.5": np.array([0.2, 0.3]),
    "8/transformer-pg/ppo/closed_0.75": np.array([0.3, 0.4]),
    "8/transformer-pg/ppo/entropy": np.array([0.2, 0.1]),
    "8/transformer-pg/ppo/tune": np.array([0.8, 0.7]),
    "8/transformer-pg-2023/reinforce/reward": np.array([-40.0, -30.0]),
    "8/transformer-pg-2023/reinforce/tune": np.array([-1.0, -2.0]),
}


def test_each_kind_of_figure_has_a_panel_of_its_own() -> None:
    assert [(title, measured, list(curves)) for title, measured, curves in panels_of(CURVES)] == [
        ("8/transformer/pretrain", "loss", ["loss", "tune"]),
        ("8/transformer-pg/ppo", "gap closed", ["1 : 3", "1 : 1", "3 : 1"]),
        ("8/transformer-pg/ppo", "entropy", ["entropy"]),
        ("8/transformer-pg/ppo", "reward", ["reward_h"]),
        ("8/transformer-pg/ppo", "loss", ["value_loss"]),
        ("8/transformer-pg-2023/reinforce", "reward", ["reward"]),
    ]


def test_a_picture_is_drawn(tmp_path) -> None:
    pytest.importorskip("matplotlib", reason="pip install mirage-hpc[plot]")
    write_picture(learning_curves(CURVES), tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
