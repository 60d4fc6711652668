"""Page of a calibration: its fidelity, the mechanisms, and the unexplained part."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mirage.atomic_file import write_output
from mirage.calibration.calibration_result import Calibration
from mirage.calibration.fidelity.judge_fidelity import Fidelity
from mirage.calibration.fit_mechanisms import TraceSlice
from mirage.calibration.inferred.capacity import outages
from mirage.calibration.mechanism_shares import PLAIN
from mirage.report.charts.calibration_charts import COLOURS, nodes_chart, shares_chart, wait_causes_chart, waits_chart
from mirage.report.charts.fidelity_charts import wait_classes_chart
from mirage.report.figures import interval_words, number_words, percent_words
from mirage.report.html_page import CARDS, Cell, chart, command, folded, key, page, section, table, tiles
from mirage.report.terminal.calibration_text import (
    CAUSES,
    facts,
    hours_words,
    judged_worse,
    share_row,
    share_words,
    survival_words,
    wait_rows,
)
from mirage.report.terminal.fidelity_text import class_table, levels_words, month_table
from mirage.trace.statistics.summary import iso_utc

_HEADING = "The simulator fitted to a cluster"
_LEVELS = ((0.1, "are close to"), (0.25, "roughly follow"), (float("inf"), "are far from"))
"""Words for the error of the moving average, each with its upper bound."""

_ORDERS = (
    (-0.6, "mostly the right jobs wait"),
    (-0.4, "often the right jobs wait"),
    (float("inf"), "which jobs wait is hardly known"),
)
"""Words for the rank correlation, each with the negative of its lower bound."""

_SLICES = ("fitted", "judged")
_SHARES = ["", *(f"{which}: {what}" for which in _SLICES for what in ("error", "rank corr.")), "mean wait", "recorded"]


def write_calibration_page(found: Calibration, path: str, made_by: str, version: str) -> None:
    """Writes the page of a calibration.

    Args:
        found: The calibration.
        path: The file.
        made_by: The command.
        version: Version of Mirage.

    Raises:
        ConfigurationError: The file cannot be written.
    """
    write_output(path, calibration_page(found, made_by, version))


def calibration_page(found: Calibration, made_by: str, version: str) -> str:
    """Returns the page of a calibration: figures, pictures, tables."""
    return page(
        _HEADING,
        _lead(found),
        tiles(_tiles(found)),
        _over_time(found),
        _nodes(found),
        *_by_class(found),
        _shares(found),
        _facts(found),
        _remains(found),
        section("How this was made", f"Mirage {version}. Times are UTC.", command(made_by)),
    )


# -- fidelity ---------------------------------------------------------------------------------------------------------


def _lead(found: Calibration) -> str:
    fitted, judged = found.whole.fitted, found.whole.judged
    return (
        f"{Path(found.trace).name}, fitted to jobs submitted {_days(found.fitted)}, judged by those of "
        f"{_days(found.after)}. {_verdict(fitted, judged)}"
    )


def _verdict(fitted: Fidelity, judged: Fidelity) -> str:
    """Describes the fidelity in sentences."""
    off, order = judged.moving_average.mape, judged.rank_correlation.value
    level = "cannot be compared with" if off is None else _worded(off, _LEVELS)
    order_text = "the order of waits cannot be compared" if order is None else _worded(-order, _ORDERS)
    means = [hours_words(one.mean).replace(" ", "\u00a0") for one in (judged.simulated_wait_s, judged.recorded_wait_s)]
    return (
        f"On the judged slice, mean waits over two weeks {level} the recorded ones, off by {percent_words(off)} "
        f"(on the fitted slice: {percent_words(fitted.moving_average.mape)}); {order_text}, with a rank correlation "
        f"of {number_words(order)} ({number_words(fitted.rank_correlation.value)}). The mean wait is {means[0]} "
        f"simulated and {means[1]} recorded."
    )


def _worded(value: float, words: Sequence[tuple[float, str]]) -> str:
    return next(words_here for bound, words_here in words if value <= bound)


def _tiles(found: Calibration) -> list[tuple[str, str, str]]:
    whole, plain = found.whole, found.row(PLAIN)
    rank, ratio = whole.judged.rank_correlation, whole.judged.mean_wait_ratio
    return [
        (
            "moving average of waits, judged",
            percent_words(whole.judged.moving_average.mape),
            f"mean error; {percent_words(whole.fitted.moving_average.mape)} fitted, "
            f"{percent_words(plain.judged.moving_average.mape)} with nothing fitted",
        ),
        (
            "single jobs, judged",
            number_words(rank.value),
            f"rank correlation{interval_words(rank.interval)}; "
            f"{number_words(whole.fitted.rank_correlation.value)} fitted, "
            f"{number_words(plain.judged.rank_correlation.value)} with nothing fitted",
        ),
        (
            "mean wait, judged",
            number_words(ratio.value),
            f"of the recorded{interval_words(ratio.interval)}; "
            f"{number_words(whole.fitted.mean_wait_ratio.value)} fitted, "
            f"{number_words(plain.judged.mean_wait_ratio.value)} with nothing fitted",
        ),
    ]


# -- pictures ---------------------------------------------------------------------------------------------------------


def _over_time(found: Calibration) -> str:
    explained = (
        "Mean waits of the jobs submitted within two weeks, at the middle of these: curves begin a week after their "
        "slice, and end a week before its end. Each slice has a separate replay that begins two weeks earlier."
    )
    return section("Waits over time", explained, chart(lambda width: waits_chart(found.whole, width)))


def _nodes(found: Calibration) -> str:
    levels = found.whole.judged.busy_nodes
    explained = (
        f"On the judged slice: {levels_words(levels)}." if levels is not None else "The trace does not contain them."
    )
    marks = [("capacity", "inferred capacity"), ("gap-band", "outage")]
    capacity = found.site.capacity(found.best)
    gone = outages(found.site.jobs, capacity.times_s, capacity.nodes) if found.best.dip_s is not None else ()
    return section(
        "Nodes over time",
        explained,
        key(marks),
        chart(lambda width: nodes_chart(found.whole, capacity, gone, width)),
    )


def _by_class(found: Calibration) -> list[str]:
    judged = found.whole.judged
    names, rows = class_table(judged)
    months = month_table(judged)
    drawn = chart(lambda width: wait_classes_chart((*judged.classes, judged.whole), width))
    return [
        section(
            "Waits by nodes and time limit",
            "Jobs of the judged slice. Distances are mean hours between the sorted waits, KS the largest difference "
            "of the two distributions.",
            drawn,
            folded(f"{len(rows)} classes in figures", table(names, rows)),
        ),
        section("By month", "Jobs of the same slice by the month in which they were submitted.", table(*months)),
    ]


def _shares(found: Calibration) -> str:
    explained = (
        "Every row is a replay of both slices with one mechanism left out. A mechanism explains the loss without it: "
        "the error grows, the correlation falls. Dashed: all mechanisms, judged; strokes: 95 % intervals."
    )
    explained += "".join(f" {sentence}" for sentence in (survival_words(found), *judged_worse(found)))
    marks = [("s6", "on the fitted slice"), ("s3", "on the judged slice")]
    rows, names = [share_row(row) for row in found.rows], [share_words(row) for row in found.rows]
    return section(
        "What each mechanism explains", explained, key(marks),
        chart(lambda width: shares_chart(found.rows, names, width)),
        table(_SHARES, rows, cards=len(rows) <= CARDS),
    )  # fmt: skip


# -- facts ------------------------------------------------------------------------------------------------------------


def _facts(found: Calibration) -> str:
    explained = (
        "Declared: in files or by name. Recorded: in the trace. Inferred: from jobs that ran or waited. Fitted: the "
        "value with the closest replays. Held back: by replays of parts of the fitted slice that the fit had not used."
    )
    rows: list[list[Cell]] = [[fact.name, (fact.found, "words"), fact.known] for fact in facts(found)]
    return section("What was found", explained, table(["of what", "found", "how it is known"], rows, 3, cards=True))


def _remains(found: Calibration) -> str:
    floor = found.waited[1].unexplained_moving_average
    explained = (
        "Causes of waits, hour by hour, computed from a history. A wait is unexplained where accounts show no cause: "
        "for a job that is first in the queue and overdue, or that would fit next to such a job. The cause may be a "
        "hold, nodes by name or a reservation for others. In a replay all causes are known: the unexplained share "
        "there is the error of the shares."
    )
    if floor is not None:
        explained += (
            f" On the judged slice, {floor:.0%} of the moving average of waits is explained by no mechanism that is "
            "visible in accounts."
        )
    heads = ["a job waited as", *(f"{which}: {how}" for which in _SLICES for how in ("recorded", "replayed"))]
    marks = [(COLOURS[cause], words) for cause, words in CAUSES.items()]
    slices = ("fitted slice", "judged slice")
    drawn = chart(lambda width: wait_causes_chart(found.waited, slices, width))
    rows = list(wait_rows(found.waited))
    return section("What remains unexplained", explained, key(marks), drawn, table(heads, rows, cards=True))


def _days(stretch: TraceSlice) -> str:
    first, last = ((iso_utc(instant_s) or "")[:10] for instant_s in (stretch.from_s, stretch.until_s - 1))
    return f"{first} to {last}"
