"""Expected coverage of a forecast that is right by class: known answers."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

POLLS, A_POLL = 20, 400


@pytest.fixture(scope="module")
def expected_coverage():
    path = Path(__file__).parents[3] / "benchmarks" / "waits" / "shared_fates.py"
    spec = importlib.util.spec_from_file_location("shared_fates", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.expected_coverage


def expected(expected_coverage, wait, polls=POLLS, least=1):
    quantiles = np.tile(np.linspace(-1, 1, 9), (len(wait), 1))
    poll = np.repeat(np.arange(POLLS), A_POLL)
    return expected_coverage(wait, quantiles, poll, np.arange(len(wait)) % 2, polls, least=least, draws=1000)


def test_independent_waits_have_the_coverage_however_they_were_promised(expected_coverage):
    rng = np.random.default_rng(1)
    for shift in (0.0, 5.0):
        found = expected(expected_coverage, rng.normal(shift, 1, POLLS * A_POLL))
        assert found["near"] == pytest.approx([2, 2, 2], abs=0.02)
        assert found["near_all"] == pytest.approx([1, 1, 1], abs=0.08)
        assert found["independent"] > 1000


def test_polls_of_one_fate_count_as_one_wait(expected_coverage):
    fate = np.repeat(np.random.default_rng(1).permutation(np.linspace(-2, 2, POLLS)), A_POLL)
    found = expected(expected_coverage, fate)
    assert found["independent"] == pytest.approx(POLLS, rel=0.2)
    assert found["near"][0] < 1.2
    more = expected(expected_coverage, fate, polls=10 * POLLS)
    assert more["independent"] == pytest.approx(10 * POLLS, rel=0.2)
    assert more["near"][0] > found["near"][0] + 0.4


def test_small_classes_are_not_counted(expected_coverage):
    found = expected(expected_coverage, np.random.default_rng(1).normal(size=POLLS * A_POLL), least=POLLS * A_POLL)
    assert (found["classes"], found["near"], found["near_95"]) == (0, [0, 0, 0], [0, 0, 0])
