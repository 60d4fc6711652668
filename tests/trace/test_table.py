"""Job tables made from columns of several types."""

from __future__ import annotations

import numpy as np
import pytest

from mirage.job_state import MISSING
from mirage.trace.table import JobTable


@pytest.mark.parametrize("unit", ["s", "ms", "ns"])
def test_dates_and_durations_become_seconds(unit: str) -> None:
    submitted = np.array(["2023-03-09T12:48:05", "NaT"], dtype=f"datetime64[{unit}]")
    ran = np.array([90, "NaT"], dtype="timedelta64[s]").astype(f"timedelta64[{unit}]")
    table = JobTable.build(["1", "2"], submit_s=submitted, elapsed_s=ran)
    assert table.submit_s.tolist() == [1_678_366_085, MISSING]
    assert table.elapsed_s.tolist() == [90, MISSING]


def test_numbers_that_are_nan_are_missing() -> None:
    table = JobTable.build(["1", "2"], nodes=[2.0, np.nan]).with_columns(cpus=np.array([np.nan, 8.0]))
    assert (table.nodes.tolist(), table.cpus.tolist()) == ([2, MISSING], [MISSING, 8])
    assert (table.nodes.dtype, table.cpus.dtype) == (np.int64, np.int64)


def test_one_text_is_no_column_of_names() -> None:
    with pytest.raises(TypeError, match="a column of names needs one name for each row, got 'bob'"):
        JobTable.build(["1", "2", "3"], user="bob")
