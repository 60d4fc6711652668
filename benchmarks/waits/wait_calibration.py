"""Settings of the calibration of waits, judged on the training days of Graham.

    python benchmarks/waits/wait_calibration.py
    python benchmarks/waits/wait_calibration.py --together 1 --others 1000 --rate 0.1

The stream of `queue_waits`, from 17 May on, ends on 17 June: the last days are not forecast. The days up to 7 June and
the ten days after it are reported apart, so that a setting can be required to be better on both.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import numpy as np

from graham import graham_sample, read_graham
from group_coverage import coverage_by
from mirage.duration import DAY_S
from mirage.predict.conformal import CalibrationSettings
from mirage.predict.waits.boosted_waits import BoostingSettings
from mirage.predict.waits.rolling_forecast import LEVELS, RollingSettings, rolling_forecast
from mirage.predict.waits.wait_score import interval_figures
from queue_waits import STREAM_FROM_DAY, near_by_class, print_intervals
from wait_references import log_waits

FORMER_DAYS, LATTER_DAYS = 22, 10


def main() -> None:
    """Make the table and print it."""
    usual = CalibrationSettings()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.environ.get("MIRAGE_DATA", "../shared/data"), metavar="FOLDER")
    parser.add_argument("--half-life-days", type=float, default=usual.half_life_s / DAY_S)
    parser.add_argument("--others", type=float, default=usual.others)
    parser.add_argument("--rate", type=float, default=usual.rate)
    parser.add_argument("--together", type=float, default=usual.together)
    parser.add_argument("--threads", type=int, default=1)
    chosen = parser.parse_args()
    calibration = CalibrationSettings(
        half_life_s=chosen.half_life_days * DAY_S, others=chosen.others, rate=chosen.rate, together=chosen.together
    )
    sample = graham_sample(read_graham(Path(chosen.data)))
    begin_s = int(sample.request_s[0]) + STREAM_FROM_DAY * DAY_S
    until_s = begin_s + FORMER_DAYS * DAY_S
    sample = sample[: int(np.searchsorted(sample.request_s, until_s + LATTER_DAYS * DAY_S))]
    settings = RollingSettings(
        refit_s=2 * DAY_S, boosting=BoostingSettings(threads=chosen.threads), calibration=calibration
    )
    stream = rolling_forecast(
        sample, begin_s, settings, progress=lambda done, total: print(done, total, file=sys.stderr, flush=True)
    )
    wait, of_class = log_waits(sample)[stream.first :], sample.size_class[stream.first :]
    former = sample.request_s[stream.first :] < until_s
    for name, here in (("17 May to 7 June", former), ("8 to 17 June", ~former)):
        by_class = coverage_by(wait[here], stream.quantiles[here], LEVELS, of_class[here])
        print_intervals({name: (int(here.sum()), interval_figures(wait[here], stream.quantiles[here], LEVELS))})
        near = near_by_class({f"class {each}": figures for each, figures in by_class.items()}, "class")
        print(f"within 5 points by class: {near}\n")


if __name__ == "__main__":
    main()
