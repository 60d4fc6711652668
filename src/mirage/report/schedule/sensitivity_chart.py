"""Charts of a sensitivity: ratios by value of each assumption."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mirage.report.axes import Axis, numbers
from mirage.report.chart import Chart, Curve, Level, Scale, Spot, picture_of, sample
from mirage.report.picture import WIDE, Picture
from mirage.report.schedule.gpu_charts import fill, series
from mirage.schedule.compare.sensitivity import PairedRatio, Sensitivity, SensitivityRow

_HEIGHT = 120.0


def sensitivity_picture(found: Sensitivity, width: float = WIDE) -> Picture:
    """Draws two charts for each assumption, with ratios of the last reference."""
    reference = found.references[-1]
    by_key: dict[str, list[SensitivityRow]] = {}
    for row in found.rows:
        by_key.setdefault(", ".join(key for key, _ in row.assumed), []).append(row)
    as_given = by_key.pop("", [])
    charts = [
        _chart(f"{measure} of {reference} over that of each, by {key}", _columns(as_given + rows), measure, reference)
        for key, rows in (by_key or {"no change": []}).items()
        for measure in ("wait", "JCT")
    ]
    return picture_of(f"Ratios of {reference} to each scheduler, by assumption", *charts, width=width)


def _columns(rows: Sequence[SensitivityRow]) -> dict[str, dict[str, SensitivityRow]]:
    """Rows by value, then by scheduler."""
    found: dict[str, dict[str, SensitivityRow]] = {}
    for row in rows:
        found.setdefault(", ".join(f"{value:g}" for _, value in row.assumed) or "as given", {})[row.scheduler] = row
    return found


def _chart(title: str, columns: Mapping[str, Mapping[str, SensitivityRow]], measure: str, reference: str) -> Chart:
    schedulers = list(dict.fromkeys(name for rows in columns.values() for name in rows))
    marks: list[Curve | Level | Spot] = [Level(1.0)]
    lowest = highest = 1.0
    for k, name in enumerate(schedulers):
        points = []
        for x, rows in enumerate(columns.values()):
            ratio = _ratio(rows.get(name), measure, reference)
            if ratio is None or ratio.ratio is None:
                continue
            points.append((float(x), ratio.ratio))
            low, high = ratio.interval or (ratio.ratio, ratio.ratio)
            lowest, highest = min(lowest, low), max(highest, high)
            marks.append(Curve([(x, low), (x, high)], series(k)))
            marks.append(Spot(x, ratio.ratio, fill(k), f"{name}: {ratio.ratio:.3f} ({low:.3f} to {high:.3f})"))
        marks.append(Curve(points, series(k)))

    margin = 0.1 * (highest - lowest) + 0.01

    def values(axis: Axis) -> list[tuple[float, str]]:
        return [(float(x), text) for x, text in enumerate(columns)]

    return Chart(
        title=title,
        x=Scale(-0.5, len(columns) - 0.5, values),
        y=Scale(max(lowest - margin, 0.0), highest + margin, numbers(4)),
        marks=marks,
        key=[(sample(series(k)), name) for k, name in enumerate(schedulers)],
        height=_HEIGHT,
    )


def _ratio(row: SensitivityRow | None, measure: str, reference: str) -> PairedRatio | None:
    if row is None:
        return None
    return (row.wait if measure == "wait" else row.jct).get(reference)
