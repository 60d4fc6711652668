"""One job as the readers that go line by line see it, and the step from many to a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mirage.job_state import MISSING, JobState
from mirage.trace.table import JobTable


class JobRecord(NamedTuple):
    """A row of the job table; names, units and missing values are the table's."""

    job_id: str
    submit_s: int = MISSING
    eligible_s: int = MISSING
    start_s: int = MISSING
    end_s: int = MISSING
    elapsed_s: int = MISSING
    limit_s: int = MISSING
    nodes: int = MISSING
    gpus: int = MISSING
    cpus: int = MISSING
    priority: int = MISSING
    state: int = JobState.UNKNOWN
    user: str = ""
    account: str = ""
    partition: str = ""
    qos: str = ""
    name: str = ""
    dependency: str = ""


def table_of(records: Sequence[JobRecord]) -> JobTable:
    """The table with one row a record, in their order."""
    if not records:
        return JobTable.build([])
    columns = dict(zip(JobRecord._fields, zip(*records)))
    return JobTable.build(**columns)
