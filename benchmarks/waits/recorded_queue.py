"""The queue of a trace at any time as it was recorded, as a view: no job is replayed.

A job waits from its submission (or the time when it became eligible) to its recorded start, or to its end if it never
started, and runs from its start to its end. The view shows nothing later than its time.
"""

from __future__ import annotations

import numpy as np

from mirage.array_types import Floats, Ints
from mirage.job_state import MISSING
from mirage.policy.view import MOST_ENDED, MOST_PENDING, Ended, Nodes, QueueJobs, View
from mirage.predict.waits.wait_features import rows_of_sample
from mirage.sim.contract.job_labels import LabelBook
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.trace.table import JobTable

NEVER_S = np.iinfo(np.int64).max // 4


class RecordedQueue:
    """The recorded queue of one pool of whole nodes.

    Rows are those of ``waits_at_submission`` of the same table; they are the ids of the jobs in its views.

    Args:
        table: The jobs, in any order.
        nodes: Nodes of the machine. While more are in use, the machine has as many as are in use.
        settings: How age adds to the priority that was recorded at submission.

    Attributes:
        request_s: Shape (n,), when each job began to wait, ascending.
        start_s: Shape (n,), its start; ``NEVER_S`` without one.
        left_s: Shape (n,), when it left the queue, by its start or without one; ``NEVER_S`` if it still waits.
    """

    def __init__(self, table: JobTable, nodes: int, settings: SlurmSettings) -> None:
        self.table = table = table[rows_of_sample(table)]
        self.nodes, self.settings = nodes, settings
        self.request_s: Ints = np.maximum(table.submit_s, table.eligible_s)
        started = table.start_s >= self.request_s
        self.start_s: Ints = np.where(started, table.start_s, NEVER_S)
        self.left_s = np.where(started, table.start_s, np.where(table.end_s >= self.request_s, table.end_s, NEVER_S))
        self._end_s = np.where(started & (table.end_s >= table.start_s), table.end_s, NEVER_S)
        self._by_end = np.argsort(self._end_s, kind="stable")
        self._ends_s = self._end_s[self._by_end]
        self._user = np.maximum(table.user.codes, 0)  # all jobs are of one user where the trace has none
        self._name, self._account = LabelBook(table).codes

    def at(self, row: int) -> View:
        """Returns the queue right after the submission of a job, which is among its pending jobs."""
        now_s = int(self.request_s[row])
        submitted = int(np.searchsorted(self.request_s, now_s, side="right"))
        at = np.arange(submitted)
        pending = at[(self.left_s[:submitted] > now_s) | (at == row)]
        running = at[(self.start_s[:submitted] <= now_s) & (self._end_s[:submitted] > now_s) & (at != row)]
        last = int(np.searchsorted(self._ends_s, now_s, side="right"))
        ended = self._by_end[max(last - MOST_ENDED, 0) : last]
        used = int(self.table.nodes[running].sum())
        capacity = max(self.nodes, used)
        of_pool = np.ones((1, 1), dtype=np.bool_)
        nodes = Nodes(True, np.array([[capacity, 0]]), np.array([[capacity - used, 0]]), of_pool)
        waiting = self._jobs(self._in_order(pending, row, now_s), now_s, runs=False)
        return View(now_s, nodes, waiting, self._jobs(running, now_s, runs=True), self._jobs(at[:0], now_s, runs=False),
                    self._ended(ended))  # fmt: skip

    def _in_order(self, pending: Ints, row: int, now_s: int) -> Ints:
        """The first pending jobs by priority; the job in question is always among them."""
        order = pending[np.lexsort((pending, -self._priority(pending, now_s)))]
        first = order[:MOST_PENDING]
        return first if row in first else np.append(first[:-1], row)

    def _priority(self, rows: Ints, now_s: int | Ints) -> Floats:
        """The recorded priority with the age since; 0 where none is recorded."""
        recorded = self.table.priority[rows]
        age = np.clip((now_s - self.request_s[rows]) / self.settings.max_age_s, 0.0, 1.0)
        return np.where(recorded > 0, recorded + self.settings.weight_age * age, 0.0)

    def _jobs(self, rows: Ints, now_s: int, *, runs: bool) -> QueueJobs:
        of, zero = self.table, np.zeros(len(rows), dtype=np.int64)
        start_s = of.start_s[rows] if runs else zero + MISSING
        return QueueJobs(
            rows, self._user[rows], zero, zero + MISSING, of.nodes[rows], zero - 1, zero - 1, of.limit_s[rows],
            of.submit_s[rows], self.request_s[rows], start_s, of.nodes[rows] * runs,
            (now_s - start_s if runs else zero).astype(np.float64),
            self._priority(rows, start_s if runs else now_s), self._name[rows], self._account[rows], zero,
        )  # fmt: skip

    def _ended(self, rows: Ints) -> Ended:
        of = self.table
        return Ended(
            self._user[rows], of.nodes[rows], of.limit_s[rows], of.submit_s[rows], of.start_s[rows],
            self._end_s[rows], self._name[rows], self._account[rows], np.full(len(rows), MISSING),
        )  # fmt: skip
