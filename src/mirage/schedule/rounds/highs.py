"""The only interface to HiGHS: silent, limited in time, and with the solver's status.

HiGHS is part of scipy (the extra ``schedule``).
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mirage.errors import ConfigurationError
from mirage.extras import install

OPTIMAL, OUT_OF_TIME, INFEASIBLE, UNBOUNDED, FAILED = "optimal", "out of time", "infeasible", "unbounded", "failed"
_STATUS = {0: OPTIMAL, 1: OUT_OF_TIME, 2: INFEASIBLE, 3: UNBOUNDED}


_ONE_AT_A_TIME = Lock()


@dataclass(frozen=True, slots=True)
class Solution:
    """Result of the solver.

    Attributes:
        x: Values of the variables; None if no solution was found.
        value: Value of the objective; NaN without a solution.
        bound: Lower bound of all solutions; NaN if unknown.
        status: One of the words above.
    """

    x: NDArray[np.float64] | None
    value: float
    bound: float
    status: str


def minimise(
    cost: ArrayLike,
    rows: Any,
    row_limit: ArrayLike,
    integer: bool = True,
    limit_s: float = 5.0,
    gap: float = 1e-4,
    row_least: ArrayLike | None = None,
    upper: ArrayLike | None = None,
) -> Solution:
    """Minimise ``cost·x`` with ``row_least <= rows·x <= row_limit`` and ``0 <= x <= upper``.

    Args:
        cost: Per variable.
        rows: Matrix of the constraints, sparse or not.
        row_limit: Largest value of each constraint.
        integer: Whether the variables are whole numbers.
        limit_s: Seconds after which the best solution so far is returned, with the status ``out of time``.
        gap: Relative distance to the optimum at which the search stops.
        row_least: Smallest value of each constraint; unlimited by default.
        upper: Largest value of each variable; 1 by default.

    Raises:
        ConfigurationError: scipy is not installed.
    """
    try:
        from scipy.optimize import Bounds, LinearConstraint, milp
    except ImportError as error:
        raise ConfigurationError(f"this scheduler needs scipy: {install('schedule')}") from error
    with _silence() if integer else nullcontext():
        found = milp(
            cost,
            constraints=LinearConstraint(rows, -np.inf if row_least is None else row_least, row_limit),
            bounds=Bounds(0.0, 1.0 if upper is None else upper),
            integrality=int(integer),
            options={"time_limit": limit_s, "mip_rel_gap": gap, "disp": False},
        )
    bound = found.get("mip_dual_bound")
    return Solution(
        x=found.x,
        value=np.nan if found.fun is None else float(found.fun),
        bound=np.nan if bound is None else float(bound),
        status=_STATUS.get(found.status, FAILED),
    )


@contextmanager
def _silence() -> Iterator[None]:
    """Silence standard output: HiGHS writes there for integer programs, despite its options."""
    flush = ctypes.CDLL(None).fflush  # of the C library, which buffers lines if stdout is not a terminal
    with _ONE_AT_A_TIME, open(os.devnull, "wb") as nowhere:
        sys.stdout.flush()
        flush(None)
        saved_stdout = os.dup(1)
        try:
            os.dup2(nowhere.fileno(), 1)
            yield
        finally:
            flush(None)
            os.dup2(saved_stdout, 1)
            os.close(saved_stdout)
