"""The checker of wait models finds violations; models by name."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from mirage.errors import ConfigurationError, ContractBroken, ModelFileError, UnknownName
from mirage.predict.waits.check_wait_model import check_wait_model
from mirage.predict.waits.wait_model_registry import WaitModelSpec, known_wait_models, make_wait_model
from mirage.trace.table import JobTable

MADE = [0]


class Right:
    """The same range for every job."""

    def waits_of_next_s(self, accounts: JobTable, job: JobTable, levels: Any) -> Any:
        return np.asarray(levels) * 3600


class Descending(Right):
    def waits_of_next_s(self, accounts: JobTable, job: JobTable, levels: Any) -> Any:
        return 3600 - super().waits_of_next_s(accounts, job, levels)


class Single(Right):
    def waits_of_next_s(self, accounts: JobTable, job: JobTable, levels: Any) -> Any:
        return 3600.0


class Helpless(Right):
    def waits_of_next_s(self, accounts: JobTable, job: JobTable, levels: Any) -> Any:
        if not len(accounts):
            raise IndexError("no accounts")
        return super().waits_of_next_s(accounts, job, levels)


class Late(Right):
    def waits_of_next_s(self, accounts: JobTable, job: JobTable, levels: Any) -> Any:
        return super().waits_of_next_s(accounts, job, levels) + 0 * time.time()


class Moody(Right):
    def __init__(self) -> None:
        MADE[0] += 1
        self.factor = MADE[0]

    def waits_of_next_s(self, accounts: JobTable, job: JobTable, levels: Any) -> Any:
        return super().waits_of_next_s(accounts, job, levels) * self.factor


class Prophet(Right):
    def waits_of_next_s(self, accounts: JobTable, job: JobTable, levels: Any) -> Any:
        return super().waits_of_next_s(accounts, job, levels) * len(accounts)


class Careless(Right):
    def waits_of_next_s(self, accounts: JobTable, job: JobTable, levels: Any) -> Any:
        accounts.submit_s[:5] = 0
        return super().waits_of_next_s(accounts, job, levels)


def test_a_model_that_satisfies_the_contract_passes() -> None:
    check_wait_model(Right)
    check_wait_model(WaitModelSpec(f"{__name__}:Right", ""))


@pytest.mark.parametrize(
    ("model", "complaint"),
    [
        (Descending, r"Descending predicts \[3510.0, .* for a usual job; give a number of seconds for each of"),
        (Single, "Single predicts 3600.0 for a usual job"),
        (Helpless, "Helpless raises IndexError.* for a job without accounts before it; answer with a wide range"),
        (Late, "the wait model reads the clock time while it predicts; use job.submit_s"),
        (Moody, "two Moody predict .* for a usual job; a model depends on its parameter"),
        (Prophet, "Prophet predicts .* for a usual job before later ones; use jobs submitted before only"),
        (Careless, "Careless changes its tables for a usual job; copy what you change"),
    ],
)
def test_a_violation_is_named(model: type[Right], complaint: str) -> None:
    MADE[0] = 0
    with pytest.raises(ContractBroken, match=complaint):
        check_wait_model(model)


def test_models_by_name() -> None:
    assert known_wait_models() == ("boosted",)
    with pytest.raises(
        UnknownName, match=r"unknown wait model 'bosted'\. Did you mean 'boosted'\?.*mirage train predict"
    ):
        make_wait_model("bosted")
    with pytest.raises(ConfigurationError, match="needs the path of a file of mirage train predict after a colon"):
        make_wait_model("boosted")
    for text in ("boosted:absent.model", "absent.model"):
        with pytest.raises(ModelFileError, match="no such file"):
            make_wait_model(text)
    with pytest.raises(ConfigurationError, match="takes no '4'"):
        WaitModelSpec(f"{__name__}:Right", "").make("4")
    with pytest.raises(ConfigurationError, match=r"math:tau is 6\.28.*, which cannot be called"):
        WaitModelSpec("math:tau", "").make()
    with pytest.raises(ConfigurationError, match=r"builtins:dict makes .*, which has no method waits_of_next_s"):
        WaitModelSpec("builtins:dict", "").make()
