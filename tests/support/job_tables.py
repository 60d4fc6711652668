"""Job tables for the tests: strategies that draw them, and their equality."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from mirage.duration import UNLIMITED_S
from mirage.job_state import MISSING, JobState
from mirage.slurm_words.timestamps import LATEST_S
from mirage.trace.table import INT_COLUMNS, LABEL_COLUMNS, JobTable

NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6)
NUMBERS = st.integers(0, 10**9)
OPTIONAL = st.one_of(st.just(MISSING), NUMBERS)


@st.composite
def job_tables(draw: st.DrawFn) -> JobTable:
    """Any table of different jobs with possible times; all its other numbers are wild."""
    n = draw(st.integers(0, 3))

    def column(values: st.SearchStrategy[Any], unique: bool = False) -> list[Any]:
        return draw(st.lists(values, min_size=n, max_size=n, unique=unique))

    wild, instant = st.integers(MISSING, 10**12), st.integers(MISSING, LATEST_S)
    ints = {name: column(instant if name.endswith("_s") else wild) for name in INT_COLUMNS}
    ints["limit_s"] = column(st.one_of(OPTIONAL, st.just(UNLIMITED_S)))
    ints["state"] = column(st.sampled_from([int(state) for state in JobState]))
    labels = {name: column(NAMES) for name in LABEL_COLUMNS}
    return JobTable.build(column(NAMES.filter(bool), unique=True), **ints, **labels)


@st.composite
def workloads(draw: st.DrawFn) -> JobTable:
    """A table of different jobs that the Standard Workload Format can hold."""
    n = draw(st.integers(0, 6))

    def column(values: st.SearchStrategy[Any], unique: bool = False) -> NDArray[np.int64]:
        return np.array(draw(st.lists(values, min_size=n, max_size=n, unique=unique)), dtype=np.int64)

    submit_s, wait_s, run_s, size = column(NUMBERS), column(OPTIONAL), column(OPTIONAL), column(OPTIONAL)
    states = (JobState.COMPLETED, JobState.CANCELLED, JobState.FAILED, JobState.UNKNOWN)
    state = column(st.sampled_from([int(state) for state in states]))
    never = (state == JobState.CANCELLED) & (run_s == 0) & (size <= 0)
    start_s = np.where((wait_s >= 0) & ~never, submit_s + wait_s, MISSING)
    label = st.one_of(st.just(""), NUMBERS.map(str))
    names = {name: draw(st.lists(label, min_size=n, max_size=n)) for name in LABEL_COLUMNS if name != "dependency"}
    return JobTable.build(
        column(NUMBERS, unique=True),
        submit_s=submit_s,
        start_s=start_s,
        end_s=np.where((start_s >= 0) & (run_s >= 0), start_s + run_s, MISSING),
        elapsed_s=run_s,
        limit_s=column(OPTIONAL),
        nodes=size,
        cpus=size,
        state=state,
        dependency=draw(st.lists(st.sampled_from(["", "afterany:5", "afterany:77"]), min_size=n, max_size=n)),
        **names,
    )


def assert_same(left: JobTable, right: JobTable, columns: Sequence[str] = (*INT_COLUMNS, *LABEL_COLUMNS)) -> None:
    """The same jobs, value by value."""
    assert left.job_id.tolist() == right.job_id.tolist()
    for name in columns:
        a, b = getattr(left, name), getattr(right, name)
        if name in LABEL_COLUMNS:
            assert a.values() == b.values(), name
        else:
            np.testing.assert_array_equal(a, b, name)
