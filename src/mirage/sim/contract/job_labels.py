"""Names and accounts of a simulation's jobs, as the codes that views show."""

from __future__ import annotations

from typing import Any

import numpy as np

from mirage.array_types import Ints
from mirage.job_state import MISSING
from mirage.kernel.compile import kernel
from mirage.slurm_words.job_names import fold_name
from mirage.trace.table import JobTable, Labels


class LabelBook:
    """The codes of folded names and of accounts, for all branches of one simulation.

    Made on first use: most simulations never show a view.

    Args:
        table: The jobs of the trace; their rows are their ids.

    Attributes:
        names: Folded name → code, in order of appearance.
        accounts: Account → code.
        codes: Shape (2, rows), name and account of the trace's jobs by id; ``MISSING`` where the trace has none.
    """

    def __init__(self, table: JobTable) -> None:
        self.names: dict[str, int] = {}
        self.accounts: dict[str, int] = {}
        columns = [_coded(table.name, self.names, fold_name), _coded(table.account, self.accounts, str)]
        self.codes: Ints = np.ascontiguousarray(np.stack(columns))

    def code(self, name: str, account: str) -> tuple[int, int]:
        """The codes of a job's name and account; new ones get the next numbers."""
        return _code(fold_name(name), self.names), _code(account, self.accounts)


class JobLabels:
    """Name and account of every job by id; a value shared by branches.

    Args:
        table: The jobs of the trace.
    """

    def __init__(self, table: JobTable) -> None:
        self._table = table
        self._books: list[LabelBook] = []
        self.injected: Ints = np.zeros((2, 0), dtype=np.int64)

    @property
    def book(self) -> LabelBook:
        """The codes, common to all branches."""
        if not self._books:
            self._books.append(LabelBook(self._table))
        return self._books[0]

    def labelled(self, job_id: int, name: str, account: str) -> JobLabels:
        """A copy with one more job labelled, or one relabelled."""
        of_trace = len(self._table)
        place = job_id - of_trace
        if place < 0:
            raise ValueError(f"job {job_id} is a job of the trace, which labels it")
        changed = object.__new__(JobLabels)
        changed._table, changed._books = self._table, self._books
        room = max(place + 1 - self.injected.shape[1], 0)
        changed.injected = np.pad(self.injected, ((0, 0), (0, room)), constant_values=MISSING)
        changed.injected[:, place] = self.book.code(name, account)
        return changed


def _coded(labels: Labels, codes: dict[str, int], fold: Any) -> Ints:
    """Codes of a column by row, after folding its names."""
    of_name = [_code(fold(name), codes) for name in labels.names]
    return np.array([*of_name, MISSING], dtype=np.int64)[labels.codes]


def _code(name: str, codes: dict[str, int]) -> int:
    return codes.setdefault(name, len(codes)) if name else MISSING


@kernel()
def label(codes: Any, injected: Any, column: int, job_id: int) -> int:
    """The code of one job: its name in column 0, its account in column 1.

    Args:
        codes: Codes of the trace's jobs.
        injected: Codes of those injected after them, as far as they are labelled.
    """
    of_trace = codes.shape[1]
    if job_id < of_trace:
        return int(codes[column, job_id])
    if job_id - of_trace < injected.shape[1]:
        return int(injected[column, job_id - of_trace])
    return MISSING
