import os
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from mirage.errors import ConfigurationError
from mirage.learn.networks.network_checkpoint import weights_of_module
from tests.support.small_trainings import BRIEF, trained


class Killed(Exception):
    """The training ends here."""


def same(a, b) -> bool:
    mine, theirs = weights_of_module(a.network), weights_of_module(b.network)
    return mine.keys() == theirs.keys() and all(np.array_equal(mine[name], theirs[name]) for name in mine)


@pytest.mark.parametrize("decides", ["dqn", "ppo"])
def test_a_training_that_was_broken_off_ends_with_the_same_weights(tmp_path, decides):
    whole = trained(BRIEF, decides)
    for stage, number in (("pretrain", 1), ("pretrain", 2), (decides, 2)):

        def progress(epoch, ends=(stage, number)):
            if (epoch.stage, epoch.number) == ends:
                raise Killed

        with pytest.raises(Killed):
            trained(replace(BRIEF, folder=tmp_path, progress=progress), decides)
    again = trained(replace(BRIEF, folder=tmp_path), decides)
    assert same(whole, again)
    assert again.curve == whole.curve


@pytest.mark.parametrize(("decides", "suffix"), [("dqn", "-dqn"), ("ppo", "-pg"), ("quantiles", "")])
def test_a_network_is_named_by_its_body_and_what_decides(decides, suffix):
    model = trained(replace(BRIEF, longest_lead_h=7.5), decides)
    assert (model.method, model.decides, model.body) == (f"perceptron{suffix}", decides, "perceptron")
    assert (model.sizes, model.longest_lead_s) == ({"width": 8}, 27_000)
    assert [epoch.stage for epoch in model.curve] == ["pretrain"] * 2 + [decides] * (3 if suffix else 0)
    assert "balance" not in model.figures
    for name in ("closed_0.25", "closed_0.75", "tune"):
        assert {name, f"pretrained_{name}"} <= set(model.figures)


def test_a_rule_that_no_network_has_is_refused():
    with pytest.raises(ConfigurationError, match=r"^a network decides by dqn, ppo or quantiles, got 'sarsa'$"):
        trained(BRIEF, "sarsa")


def test_another_seed_gives_other_weights():
    assert not same(trained(BRIEF, "quantiles"), trained(replace(BRIEF, seed=4), "quantiles"))


KILLED = """
import os, signal, sys
from dataclasses import replace
from pathlib import Path
from tests.support.small_trainings import BRIEF, trained
def progress(epoch):
    if (epoch.stage, epoch.number) == (sys.argv[2], 2):
        os.kill(os.getpid(), signal.SIGKILL)
trained(replace(BRIEF, folder=Path(sys.argv[1]), progress=progress), "dqn", "transformer")
"""


@pytest.mark.slow
def test_a_training_that_was_killed_ends_with_the_same_weights(tmp_path):
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    for stage in ("pretrain", "dqn"):
        done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), stage], env=env, check=False)
        assert done.returncode == -signal.SIGKILL
    again = trained(replace(BRIEF, folder=tmp_path), "dqn", "transformer")
    assert same(again, trained(BRIEF, "dqn", "transformer"))


def test_the_checkpoint_of_another_training_is_refused(tmp_path):
    trained(replace(BRIEF, folder=tmp_path), "quantiles")
    with pytest.raises(ConfigurationError, match="another training"):
        trained(replace(BRIEF, folder=tmp_path, pretrain=replace(BRIEF.pretrain, rows=128)), "quantiles")
    (checkpoint,) = tmp_path.iterdir()
    checkpoint.write_bytes(checkpoint.read_bytes()[:100])
    with pytest.raises(ConfigurationError, match="not a checkpoint"):
        trained(replace(BRIEF, folder=tmp_path), "quantiles")


def test_methods_of_one_body_share_its_pretraining(tmp_path):
    stages = []
    settings = replace(BRIEF, folder=tmp_path, progress=lambda epoch: stages.append(epoch.stage))
    trained(settings, "dqn")
    trained(settings, "ppo")
    assert stages == ["pretrain"] * 2 + ["dqn"] * 3 + ["ppo"] * 3


def test_the_best_epoch_is_retained_and_training_stops_without_a_gain():
    hasty = replace(BRIEF, pretrain=replace(BRIEF.pretrain, epochs=20, rate=1.0, patience=2))
    model = trained(hasty, "quantiles")
    tunes = [epoch.figures["tune"] for epoch in model.curve]
    best = int(np.argmin(tunes))
    assert len(tunes) == best + 3 < 20
    until_best = trained(replace(hasty, pretrain=replace(hasty.pretrain, patience=20)), "quantiles")
    assert until_best.curve[: len(tunes)] == model.curve


def test_a_window_of_early_decisions_only_is_refused():
    with pytest.raises(ConfigurationError, match="longest_lead_h"):
        trained(replace(BRIEF, longest_lead_h=-1.0), "dqn")
