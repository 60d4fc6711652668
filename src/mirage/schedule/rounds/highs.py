"""The only interface to HiGHS: silent, limited, and with the solver's status.

A linear program is limited in simplex iterations: its solution does not depend on the load of the machine. An integer
program is limited in time. HiGHS is part of scipy (the extra ``schedule``).
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mirage.errors import ConfigurationError
from mirage.extras import install

OPTIMAL, INFEASIBLE, UNBOUNDED, FAILED = "optimal", "infeasible", "unbounded", "failed"
OUT_OF_TIME, OUT_OF_ITERATIONS = "out of time", "out of iterations"
_STATUS = {0: OPTIMAL, 2: INFEASIBLE, 3: UNBOUNDED}

_MOST_ITERATIONS = 50_000
"""A round of Sia takes about two iterations a job, one of Gavel at most three; 8,000 of Sia take 0.3 s."""

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
    limit_s: float = 5.0,
    gap: float = 1e-4,
    row_least: ArrayLike | None = None,
    upper: ArrayLike | None = None,
) -> Solution:
    """Minimise ``cost·x`` over whole numbers x.

    With ``row_least <= rows·x <= row_limit`` and ``0 <= x <= upper``.

    Args:
        cost: Per variable.
        rows: Matrix of the constraints, sparse or not.
        row_limit: Largest value of each constraint.
        limit_s: Seconds after which the best solution so far is returned, with the status ``out of time``.
        gap: Relative distance to the optimum at which the search stops.
        row_least: Smallest value of each constraint; unlimited by default.
        upper: Largest value of each variable; 1 by default.

    Raises:
        ConfigurationError: scipy is not installed.
    """
    scipy = _scipy_optimize()
    with _silence():
        found = scipy.milp(
            cost,
            constraints=scipy.LinearConstraint(rows, -np.inf if row_least is None else row_least, row_limit),
            bounds=scipy.Bounds(0.0, 1.0 if upper is None else upper),
            integrality=1,
            options={"time_limit": limit_s, "mip_rel_gap": gap, "disp": False},
        )
    return _solution(found, found.get("mip_dual_bound"), OUT_OF_TIME)


def minimise_linear(
    cost: ArrayLike,
    rows: Any,
    row_limit: ArrayLike,
    upper: ArrayLike | None = None,
    iterations: int = _MOST_ITERATIONS,
) -> Solution:
    """Minimise ``cost·x`` with ``rows·x <= row_limit`` and ``0 <= x <= upper``.

    Args:
        cost: Per variable.
        rows: Matrix of the constraints, sparse or not.
        row_limit: Largest value of each constraint.
        upper: Largest value of each variable; 1 by default.
        iterations: Simplex iterations after which the search ends without a solution, with the status ``out of
            iterations``.

    Raises:
        ConfigurationError: scipy is not installed.
    """
    scipy = _scipy_optimize()
    highest = np.broadcast_to(np.asarray(1.0 if upper is None else upper, np.float64), np.shape(cost))
    bounds, options = np.column_stack([np.zeros_like(highest), highest]), {"maxiter": iterations}
    found = scipy.linprog(cost, A_ub=rows, b_ub=row_limit, bounds=bounds, method="highs", options=options)
    return _solution(found, found.fun, OUT_OF_ITERATIONS)


def _scipy_optimize() -> Any:
    try:
        import scipy.optimize
    except ModuleNotFoundError as error:
        raise ConfigurationError(f"this scheduler needs scipy: {install('schedule')}") from error
    return scipy.optimize


def _solution(found: Any, bound: float | None, out_of_limit: str) -> Solution:
    return Solution(
        x=found.x,
        value=np.nan if found.fun is None else float(found.fun),
        bound=np.nan if bound is None else float(bound),
        status=out_of_limit if found.status == 1 else _STATUS.get(found.status, FAILED),
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
