"""Every network on a small queue with a known optimum, and the time of a decision.

    PYTHONPATH=. python benchmarks/learn/small_queue.py             # a few minutes on one core
    PYTHONPATH=. python benchmarks/learn/small_queue.py --quick     # a smoke run
    PYTHONPATH=. python benchmarks/learn/small_queue.py --settings test --bodies perceptron --seed 1

The queue is that of the tests (tests/support/small_environment.py): a Markov chain of backlogs, solved by dynamic
programming. Figures are the exact expected gain of a network's decisions over submitting at the end, as a share of the
optimum's, at costs of 1:1, 3:1 and 9:1; next to them those of the pre-trained distribution and its rule alone.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from mirage.learn.networks.network_inputs import OF_THE_LINK, ScaledHandOvers
from mirage.learn.networks.network_model import NetworkModel
from mirage.learn.networks.pretraining import PretrainSettings
from mirage.learn.reinforcement.dqn import DqnSettings
from mirage.learn.reinforcement.network_training import NetworkSettings, train_network
from mirage.learn.reinforcement.network_validation import decisions
from mirage.learn.reinforcement.ppo import PpoSettings
from tests.support import small_environment

SHARES = (0.5, 0.75, 0.9)
DECISIONS = 200

SHORT = PretrainSettings(epochs=3, rows=4096)
SETTINGS = {
    "table": NetworkSettings(
        pretrain=SHORT,
        dqn=DqnSettings(epochs=6, patience=6, steps=120, stretches=16, n_step=3, rate=2e-3, tau=0.03),
        ppo=PpoSettings(epochs=8, patience=8, rate=2e-3, horizon=12, passes=4, entropy=0.003),
    ),
    "test": NetworkSettings(
        pretrain=PretrainSettings(epochs=0),
        dqn=DqnSettings(epochs=12, patience=12, steps=120, n_step=3, rate=2e-3, tau=0.05, quantiles=0.1),
        ppo=PpoSettings(epochs=16, patience=16, rate=4e-3, horizon=12, passes=4, entropy=0.003, quantiles=0.1),
    ),
    "shipped": NetworkSettings(pretrain=SHORT),
}
"""Those of docs/explanation/networks.md; of the tests, from scratch; and those that ship, pre-trained briefly."""


def main() -> None:
    """Train each network, print its figures and write them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--settings", choices=SETTINGS, default="table")
    parser.add_argument("--bodies", nargs="+", default=["perceptron", "transformer", "mixture"])
    parser.add_argument("--ppo-rate", type=float, help="of the policy gradient, in place of that of the settings")
    parser.add_argument("-o", "--output", default="benchmarks/results/small_queue.json")
    options = parser.parse_args()
    settings = replace(SETTINGS[options.settings], seed=options.seed)
    if options.ppo_rate:
        settings = replace(settings, ppo=replace(settings.ppo, rate=options.ppo_rate))
    if options.quick:
        stages = {name: replace(getattr(settings, name), epochs=1) for name in ("pretrain", "dqn", "ppo")}
        settings = replace(settings, **stages)
    windows = 60 if options.quick else 600
    data, tune = small_environment.sampled(windows, 1), small_environment.sampled(150, 2)
    found = {}
    print("network             weights  cpu-s   1:1   3:1   9:1   its rule alone         ms a decision")
    for body in options.bodies:
        for decides in ("dqn", "ppo"):
            began = time.process_time()
            model = train_network(body, decides, data, tune, settings)
            spent = time.process_time() - began
            gained, rule = gains(model, decides), gains(model, "quantiles")
            found[model.method] = {"cpu_s": spent, "gains": gained, "rule": rule, "decision_ms": decision_ms(model)}
            shown = "  ".join(f"{gain:4.2f}" for gain in gained)
            alone = "  ".join(f"{gain:4.2f}" for gain in rule)
            took = found[model.method]["decision_ms"]
            print(f"{model.method:18} {model.weights:8,} {spent:6.1f}  {shown}   {alone}   {took:6.1f}", flush=True)
    Path(options.output).parent.mkdir(parents=True, exist_ok=True)
    Path(options.output).write_text(json.dumps(found, indent=2))


def gains(model: NetworkModel, decides: str) -> list[float]:
    """Share of the optimum's gain, at each cost."""
    rows = ScaledHandOvers(small_environment.every_state(), model.scaling)
    shape = small_environment.best_decisions(0.5).shape
    return [
        float(small_environment.gain(decisions(model.network, rows, share, decides).reshape(shape), share))
        for share in SHARES
    ]


def decision_ms(model: NetworkModel) -> float:
    """Median processor time of one decision from its inputs, in milliseconds."""
    data = small_environment.every_state()
    history, link = (
        data.history(np.array([5])),
        np.array([getattr(data, name)[5] for name in OF_THE_LINK], dtype=np.float32),
    )
    took = []
    for _ in range(DECISIONS):
        began = time.process_time()
        model.estimates(history, data.features[5:6], link[None], 0.5)
        took.append(time.process_time() - began)
    return float(np.median(took) * 1000)


if __name__ == "__main__":
    main()
