"""Forecasts from little history: all but the last ended jobs are hidden from a forecast.

    python benchmarks/forecast/little_history.py ls6-a100.log.gz --discipline slurm

``alone`` uses only the jobs that have ended: the reference. ``filled`` is the method of forecasts: if few jobs of a
kind have ended, wider kinds count as well. CRPS in hours, and the share of true starts inside the 50, 80 and 95 %
intervals, within twelve minutes, of all moments.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import fields, replace

import numpy as np

from mirage.array_types import Floats
from mirage.duration import HOUR_S, MINUTE_S
from mirage.forecast import use_history
from mirage.forecast.forecaster import Forecaster
from mirage.policy.view import ChainView, Ended, View
from start_moments import LIMIT_S, PATIENCE_S, options_of_moments, replay

LEVELS = (0.5, 0.8, 0.95)
NEAR_H = 12 * MINUTE_S / HOUR_S
FILLED = {"alone": 1e-9, "filled": use_history.ENOUGH}


def with_the_last(view: View, count: int) -> View:
    """The view with only the last ended jobs."""
    return replace(
        view, ended=Ended(**{field.name: getattr(view.ended, field.name)[-count:] for field in fields(Ended)})
    )


def figures(waits_h: Floats, true_h: float) -> list[float]:
    """CRPS, and whether each interval holds."""
    crps = np.abs(waits_h - true_h).mean() - np.abs(waits_h[:, None] - waits_h).mean() / 2
    ends = [np.quantile(waits_h, ((1 - level) / 2, (1 + level) / 2)) for level in LEVELS]
    return [crps, *(low - NEAR_H <= true_h <= high + NEAR_H for low, high in ends)]


def main() -> None:
    """Play, score and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options_of_moments(parser, every_h=14.0)
    parser.add_argument("--ended", type=int, nargs="+", default=[5, 15, 40, 150, 500])
    parser.add_argument("--futures", type=int, default=64)
    options = parser.parse_args()
    sim, cast = replay(options), Forecaster(options.futures, discipline=options.discipline)
    branch = sim.fork()
    found: dict[tuple[int, str], list[list[float]]] = {(count, how): [] for count in options.ended for how in FILLED}
    for now_s in range(options.from_s, options.until_s, round(options.every_h * HOUR_S)):
        sim.approach(now_s)
        print(np.datetime64(now_s, "s"), end="\r", file=sys.stderr)
        for nodes in options.link_nodes:
            chain = ChainView(nodes, LIMIT_S, -1, now_s, now_s, now_s, 1800)
            branch.restore(sim)
            started_s = branch.run_until_started(branch.inject(nodes=nodes, limit_s=LIMIT_S), now_s + PATIENCE_S)
            true_h = (PATIENCE_S if started_s is None else started_s - now_s) / HOUR_S
            view = sim.view(chain)
            for count, how in found:
                use_history.ENOUGH = FILLED[how]  # type: ignore[assignment]
                queue = cast.of(with_the_last(view, count))
                waits_s = queue.play(chain, np.zeros(1, dtype=np.int64), now_s + PATIENCE_S).waits_s[:, 0]
                found[count, how].append(figures(waits_s / HOUR_S, true_h))
    print(f"{'ended':>6}  {'':8}{'CRPS, h':>8}  inside 50 / 80 / 95 %   of {len(next(iter(found.values())))} moments")
    for (count, how), rows in found.items():
        crps, *inside = np.array(rows, dtype=np.float64).mean(axis=0)
        print(f"{count:6}  {how:8}{crps:8.2f}  " + " / ".join(f"{100 * share:.0f}" for share in inside))


if __name__ == "__main__":
    main()
