"""The table and the charts of a sensitivity."""

from __future__ import annotations

from mirage.report.schedule.sensitivity_chart import sensitivity_picture
from mirage.report.schedule.sensitivity_text import ratio_text, sensitivity_cells
from mirage.report.svg import svg_of
from mirage.schedule.compare.sensitivity import PairedRatio, Sensitivity, SensitivityRow

FIFO, NONE = PairedRatio(4.0, (3.5, 4.5)), PairedRatio(None, None)


def _row(assumed: tuple[tuple[str, float], ...], scheduler: str, jct: PairedRatio) -> SensitivityRow:
    counts = {"preemptions": 1.0, "restarts": 2.0, "lost_gpu_h": 3.0, "overhead_gpu_h": 0.0}
    ratios = {"wait": {"fifo": FIFO, "own": NONE}, "jct": {"fifo": FIFO, "own": jct}}
    return SensitivityRow(assumed, scheduler, 50.0, 5400.0, **ratios, **counts, breaches=0.0, unmet_server_h=0.0)


FOUND = Sensitivity(
    rows=(
        _row((), "a", PairedRatio(1.25, (1.2, 1.3))),
        _row((), "b", PairedRatio(0.9, None)),
        _row((("fungible", 1.0),), "a", PairedRatio(1.5, (1.1, 2.05))),
    ),
    references=("fifo", "own"),
    left_out={},
    reused=0,
    failed=(),
)


def test_the_table_has_both_ratios_to_each_reference() -> None:
    names, cells = sensitivity_cells(FOUND)
    assert names == [
        "assumed", "scheduler", "mean wait s", "mean JCT h", "wait, of fifo", "JCT, of fifo", "wait, of own",
        "JCT, of own", "lost GPU h",
    ]  # fmt: skip
    assert [row[0] for row in cells] == ["as given", "", "fungible=1"]
    assert cells[0][2:] == ["50", "1.500", *["4.00 (3.50-4.50)"] * 2, "-", "1.250 (1.200-1.300)", "3.0"]
    assert ratio_text(PairedRatio(0.9, None)) == "0.900"


def test_the_charts_show_each_value_next_to_the_case_without_changes() -> None:
    drawn = svg_of(sensitivity_picture(FOUND))
    for text in (
        "JCT of own over that of each, by fungible",
        "wait of own over",
        "as given",
        "a: 1.500 (1.100 to 2.050)",
    ):
        assert text in drawn
    assert drawn.count("a: 1.250") == 1, "waits have no ratio to draw"
