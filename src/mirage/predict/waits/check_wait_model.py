"""Check of a wait model; run it on your own model before you plug it in."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mirage.array_types import Floats
from mirage.duration import DAY_S, HOUR_S
from mirage.effects import Watched, no_effects
from mirage.errors import ContractBroken
from mirage.predict.waits.wait_model_registry import WaitModelSpec, WaitPredictor, wait_model_spec
from mirage.trace.table import JobTable
from mirage.trace.write_trace import WRITERS

NOW_S = 1_700_000_000
LEVELS = (0.025, 0.1, 0.25, 0.5, 0.75, 0.9, 0.975)
JOBS = 300

_WATCHED = Watched("the wait model", "predicts", "use job.submit_s", "do that when the model is made")


def check_wait_model(model: str | WaitModelSpec | Callable[[], WaitPredictor]) -> None:
    """Let a wait model predict from small accounts and check what it returns.

    A quantile for each level: finite, not negative, not descending. Two models give the same; the second, which finds
    all modules loaded, opens no file and reads no clock. The tables are not changed. Jobs that were submitted later
    change nothing. It answers without any accounts, and for a partition and a user that it does not know.

    Args:
        model: A name, a specification without a parameter, or a function that makes the model.

    Raises:
        ContractBroken: The first violation found.
    """
    make = wait_model_spec(model).make if isinstance(model, str) else model
    make = make.make if isinstance(make, WaitModelSpec) else make
    first, again = make(), make()
    name, accounts = type(first).__name__, _accounts()
    for what, known, job in (
        ("a usual job", accounts, _job("p1", "user3")),
        ("a job of a new user in a new partition", accounts, _job("new", "new")),
        ("a job without accounts before it", accounts[np.zeros(JOBS, dtype=bool)], _job("p1", "user3")),
    ):
        before = _content(known), _content(job)
        waits_s = _waits_s(name, what, first, known, job)
        if (_content(known), _content(job)) != before:
            raise ContractBroken(f"{name} changes its tables for {what}; copy what you change")
        with no_effects(_WATCHED):
            second_s = _waits_s(name, what, again, known, job)
        _check_equal(f"two {name} predict", what, waits_s, second_s, "a model depends on its parameter and the tables")
    job = _job("p1", "user3")
    later = accounts.with_columns(submit_s=accounts.submit_s + 30 * DAY_S, start_s=accounts.start_s + 30 * DAY_S)
    alone_s = _waits_s(name, "a usual job", first, accounts, job)
    both_s = _waits_s(name, "a usual job", first, accounts.followed_by(later), job)
    _check_equal(f"{name} predicts", "a usual job before later ones", alone_s, both_s, "use jobs submitted before only")


def _waits_s(name: str, what: str, model: WaitPredictor, accounts: JobTable, job: JobTable) -> Floats:
    try:
        waits_s = np.asarray(model.waits_of_next_s(accounts, job, np.array(LEVELS)))
    except ContractBroken:
        raise
    except Exception as error:
        raise ContractBroken(f"{name} raises {error!r} for {what}; answer with a wide range") from (error)
    right = waits_s.shape == (len(LEVELS),) and bool(np.isfinite(waits_s).all())
    if not right or waits_s[0] < 0 or (np.diff(waits_s) < 0).any():
        raise ContractBroken(
            f"{name} predicts {waits_s.tolist()} for {what}; give a number of seconds for each of {LEVELS}, none "
            "below 0 or below the one before it"
        )
    return waits_s


def _check_equal(subject: str, what: str, one_s: Floats, other_s: Floats, rule: str) -> None:
    if one_s.tolist() != other_s.tolist():
        raise ContractBroken(f"{subject} {one_s.tolist()} and then {other_s.tolist()} for {what}; {rule}")


def _content(table: JobTable) -> bytes:
    return WRITERS["csv"](table)


def _job(partition: str, user: str) -> JobTable:
    return JobTable.build(
        ["next"], submit_s=[NOW_S], limit_s=[5 * HOUR_S], nodes=[3], user=[user], partition=[partition]
    )


def _accounts() -> JobTable:
    """Jobs of three days: most have ended, some run, some wait."""
    random = np.random.default_rng(5)
    submit_s = NOW_S - np.sort(random.integers(1, 3 * DAY_S, JOBS))[::-1]
    start_s = submit_s + random.integers(0, 8 * HOUR_S, JOBS)
    end_s = start_s + random.integers(60, 12 * HOUR_S, JOBS)
    started, ended = start_s <= NOW_S, end_s <= NOW_S
    return JobTable.build(
        np.arange(JOBS),
        submit_s=submit_s,
        eligible_s=submit_s,
        start_s=np.where(started, start_s, -1),
        end_s=np.where(ended, end_s, -1),
        elapsed_s=np.where(ended, end_s - start_s, np.where(started, NOW_S - start_s, -1)),
        limit_s=random.integers(1, 24, JOBS) * HOUR_S,
        nodes=random.choice([1, 2, 16], JOBS, p=[0.6, 0.3, 0.1]),
        user=[f"user{k}" for k in random.integers(0, 7, JOBS)],
        partition=[f"p{k}" for k in random.choice(3, JOBS, p=[0.2, 0.7, 0.1])],
    )
