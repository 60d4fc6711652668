"""Job tables made from columns of several types."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any

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


def test_names_that_are_nan_are_missing() -> None:
    assert JobTable.build(["1", "2"], user=["bob", np.nan]).user.values() == ["bob", ""]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ({"user": "bob"}, "column user: a column of names needs one name for each row, got 'bob'"),
        ({"user": [1, 2]}, "column user: a name must be a text, got 1; give texts, None where one is missing"),
        ({"nodes": 4}, "column nodes: it needs one value for each row, got 4; give whole numbers"),
        ({"nodes": [[1], [2]]}, "column nodes: it needs one value for each row"),
        ({"nodes": [0.5, 1.0]}, "column nodes: 0.5 is no whole number"),
        ({"nodes": np.array([2**64 - 1, 1], np.uint64)}, "column nodes: 18446744073709551615 is no whole number"),
        ({"nodes": [np.inf, 1]}, "column nodes: inf is no whole number"),
        ({"submit_s": [datetime(2023, 3, 9)] * 2}, "column submit_s: .* datetime64 and timedelta64"),
        ({"state": ["COMPLETED"] * 2}, "column state: invalid literal for int.*'COMPLETED'.*; give whole numbers"),
        ({"job_id": [None, "2"]}, "column job_id: None is no number of a job; give whole numbers or texts"),
        ({"job_id": "12"}, "column job_id: it needs one value for each row, got '12'"),
    ],
)
def test_values_of_another_type_are_refused_with_their_column(column: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        JobTable.build(**{"job_id": ["1", "2"], **column})


def test_columns_that_do_not_exist_are_named() -> None:
    table = JobTable.build(["1", "2"])
    for made in (table.with_columns, partial(JobTable.build, ["1", "2"])):
        with pytest.raises(TypeError, match=r"no such columns: \['nods'\]"):
            made(nodes=[1, 2], nods=[1, 2])


@pytest.mark.parametrize("rows", [0, -1, "nodes", None])
def test_a_row_is_no_table(rows: Any) -> None:
    with pytest.raises(TypeError, match=rf"rows are chosen by a slice, .* such as table\[:1\]; got {rows!r}"):
        JobTable.build(["1", "2"])[rows]
