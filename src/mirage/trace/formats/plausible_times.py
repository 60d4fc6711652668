"""Rejection of impossible times and counts, and notes on odd times.

The rule is the same for every format. A row is rejected if an instant is before 1970 or after 2099, if a duration is
negative or longer than that span, or if a count is negative (−1 is an unknown one). A row that ends before it starts,
or starts before it was submitted, is counted but remains: clocks of two machines differ, and a requeued job gets a new
submission time. Its run time without ``Elapsed``, or its wait, is left out of all statistics (see ``JobTable.run_s``
and ``JobTable.wait_s``). If more than a tenth of the rows with a limit ran clearly beyond it, these are counted, too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mirage.array_types import Ints
from mirage.duration import UNLIMITED_S
from mirage.errors import LineError
from mirage.job_state import MISSING
from mirage.slurm_words.timestamps import LATEST_S
from mirage.trace.formats.read_report import ReadTally
from mirage.trace.table import JobTable

ENDS_FIRST = "row that ends before it starts (run time unknown without Elapsed)"
STARTS_FIRST = "row that starts before its submission (wait unknown)"
RUNS_ON = "row with a run time beyond its time limit; is the limit in another unit?"

_LARGEST = {
    **dict.fromkeys(("submit_s", "eligible_s", "start_s", "end_s", "elapsed_s"), LATEST_S),
    "limit_s": UNLIMITED_S,
}
_COUNTS = ("nodes", "gpus", "cpus", "memory_mib", "priority")


def without_impossible_times(table: JobTable, lines: Sequence[int] | Ints, tally: ReadTally) -> JobTable:
    """Returns the rows with possible times and counts; the others are rejected.

    Args:
        table: The rows that were read.
        lines: The line (or record) of every row.
        tally: Receives the rejected rows and the odd ones.

    Raises:
        TraceError: Reading is strict and a row has an impossible time or count.
    """
    possible = np.ones(len(table), dtype=np.bool_)
    for name, largest in _LARGEST.items():
        values = getattr(table, name)
        possible &= (values >= MISSING) & (values <= largest)
    for name in _COUNTS:
        possible &= getattr(table, name) >= MISSING
    for row in np.flatnonzero(~possible).tolist():
        tally.reject(int(lines[row]), _complaint(table, row))
    table = table if possible.all() else table[possible]
    _note(tally, ENDS_FIRST, (table.start_s >= 0) & (table.end_s >= 0) & (table.end_s < table.start_s))
    limited = (table.limit_s > 0) & (table.limit_s < UNLIMITED_S) & (table.run_s >= 0)
    beyond = limited & (table.run_s > 1.1 * table.limit_s + 300)
    if beyond.sum() > 0.1 * limited.sum():
        _note(tally, RUNS_ON, beyond)
    _note(tally, STARTS_FIRST, (table.submit_s >= 0) & (table.start_s >= 0) & (table.start_s < table.submit_s))
    return table


def _note(tally: ReadTally, what: str, odd: np.ndarray) -> None:
    if count := int(odd.sum()):
        tally.notes[what] += count


def _complaint(table: JobTable, row: int) -> LineError:
    for name, largest in _LARGEST.items():
        value = int(getattr(table, name)[row])
        if value < MISSING:
            return LineError("negative time", f"{name} is {value}", "leave out what is not known")
        if value > largest:
            return LineError(
                "time out of range", f"{name} is {value}", "instants lie between 1970 and 2100; check the unit"
            )
    for name in _COUNTS:
        if (value := int(getattr(table, name)[row])) < MISSING:
            return LineError("negative count", f"{name} is {value}", "leave out what is not known")
    raise AssertionError("called for a row without an impossible time or count")
