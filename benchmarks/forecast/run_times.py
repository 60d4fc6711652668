"""Predictions of run times, judged on a trace month by month.

    python benchmarks/forecast/run_times.py TRACE --from 2023-02-01 [--until 2023-04-01] [--every 5] [-o run-times.json]

A sample of the jobs submitted in that time is predicted at submission, and again after a quarter and a half of the
limit, if they still run. Every kind gets the view of that moment: the last 5,000 jobs that have ended, and those that
run. A kind with parameters (--tried) is fitted again for every month, on the months before. Scores are of the use of
the limit, of the run time in hours, and of node-hours; the intervals are those of the difference from the first kind,
from a bootstrap over weeks of submission.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from mirage.duration import DAY_S
from mirage.forecast.use_history import HistoryRunTimes
from mirage.predict.run_times.named_history import NamedHistory
from mirage.trace.read_trace import read_trace
from run_time_accuracy import crps, pinball, pit
from run_time_questions import SHARES, Questions, questions, view_of
from trace_timeline import Timeline

WEEK_S = 7 * DAY_S

LEVELS = 64


def answers(kind: Any, timeline: Timeline, cases: Questions) -> tuple[np.ndarray, float]:
    """Levels for every question, shape (n, levels), and milliseconds of CPU per moment."""
    found, spent = [], 0.0
    moments = list(cases.by_moment())
    for rows in moments:
        view = view_of(timeline.requests[cases.row[rows]], cases.elapsed[rows], timeline.at(int(cases.now_s[rows[0]])))
        before = time.process_time()
        uses = kind.uses(view)
        spent += time.process_time() - before
        stretch = uses.stretch[: len(rows)]
        at = (np.arange(LEVELS) + 0.5) / LEVELS * (stretch[:, 1] - stretch[:, 0])[:, None]
        found.append(uses.samples[stretch[:, :1] + at.astype(np.int64)])
    return np.concatenate(found), 1e3 * spent / len(moments)


def scores(levels: np.ndarray, timeline: Timeline, cases: Questions) -> dict[str, np.ndarray]:
    """Every score of every question."""
    truth = timeline.use[cases.row]
    hours = timeline.requests.limit_s[cases.row] / 3600
    places = pit(levels, truth, np.random.default_rng(0))
    use = crps(levels, truth)
    found = {"use": use, "hours": use * hours, "node_hours": use * hours * timeline.requests.nodes[cases.row]}
    found |= {f"pinball_{q}": pinball(levels, truth, q) for q in (0.1, 0.5, 0.9)}
    found |= {f"cover_{c}": (np.abs(places - 0.5) <= c / 200).astype(float) for c in (50, 80, 95)}
    return found


def difference(mine: np.ndarray, reference: np.ndarray, week: np.ndarray) -> list[float]:
    """The mean difference and its 95 % interval, from a bootstrap over weeks."""
    weeks = [np.flatnonzero(week == w) for w in np.unique(week)]
    random, off = np.random.default_rng(0), mine - reference
    drawn = [off[np.concatenate([weeks[k] for k in random.integers(0, len(weeks), len(weeks))])].mean()
             for _ in range(1000)]  # fmt: skip
    return [float(off.mean()), *map(float, np.quantile(drawn, [0.025, 0.975]))]


def judge(timeline: Timeline, kinds: dict[str, Any], cases: Questions) -> dict[str, Any]:
    """Mean scores of every kind at every share, and differences from the first."""
    week = timeline.requests.submit_s[cases.row] // WEEK_S
    report: dict[str, Any] = {}
    first: dict[str, np.ndarray] = {}
    for name, kind in kinds.items():
        levels, ms = answers(kind, timeline, cases)
        found = scores(levels, timeline, cases)
        first = first or found
        report[name] = {"ms": ms}
        for share in SHARES:
            now = cases.elapsed == share
            if not now.any():
                continue
            row: dict[str, Any] = {key: float(score[now].mean()) for key, score in found.items()}
            row |= {f"{key}_off": difference(found[key][now], first[key][now], week[now]) for key in ("use", "hours")}
            report[name][str(share)] = row | {"n": int(now.sum())}
            low, high = row["use_off"][1:]
            print(
                f"{name:15} at {share:4.0%} n {now.sum():5}: CRPS use {row['use']:.4f} ({low:+.4f} {high:+.4f}) hours "
                f"{row['hours']:6.3f}  node-hours {row['node_hours']:7.3f}  inside 50/80/95: {row['cover_50']:.0%} "
                f"{row['cover_80']:.0%} {row['cover_95']:.0%}  {ms:.1f} ms",
                flush=True,
            )
    return report


def months(from_s: int, until_s: int) -> Iterator[tuple[str, int, int]]:
    """The calendar months in [from, until): name, begin, end."""
    month = np.datetime64(from_s, "s").astype("datetime64[M]")
    while (begin_s := int(month.astype("datetime64[s]").astype(int))) < until_s:
        end_s = int((month + 1).astype("datetime64[s]").astype(int))
        yield str(month), max(begin_s, from_s), min(end_s, until_s)
        month += 1


def _seconds(day: str) -> int:
    return int(np.datetime64(day, "s").astype(int))


def main() -> None:
    """Judge and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--from", dest="from_s", type=_seconds, help="first day, as 2023-02-01")
    parser.add_argument("--until", dest="until_s", type=_seconds, help="the day after the last")
    parser.add_argument("--every", type=int, default=5, help="one job in so many is predicted")
    parser.add_argument("--tried", action="store_true", help="also the kinds that were tried and lost")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    timeline = Timeline(read_trace(options.trace, on_error="skip").table)
    submit_s = timeline.requests.submit_s
    kinds: dict[str, Any] = {"history": HistoryRunTimes(), "named-history": NamedHistory()}
    fitted: dict[str, Callable[[Timeline, int, int], Any]] = {}
    if options.tried:
        from run_times_tried import KERNEL, Boosted

        kinds["kernel"] = KERNEL
        fitted["boosted"] = Boosted.fitted
    report = {}
    until_s = options.until_s or int(submit_s[-1]) + 1
    for month, begin_s, end_s in months(options.from_s or int(submit_s[0]) + 30 * DAY_S, until_s):
        print(month, file=sys.stderr)
        cases = questions(timeline, begin_s, end_s, options.every)
        if len(cases.row):
            late = {name: fit(timeline, begin_s, options.every) for name, fit in fitted.items()}
            report[month] = judge(timeline, kinds | late, cases)
    if options.output:
        options.output.write_text(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
