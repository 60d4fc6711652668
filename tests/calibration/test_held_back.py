"""A mechanism is used only if it survives on slices held back from the fitted one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirage.calibration import fit_mechanisms
from mirage.calibration.calibration_result import Calibration
from mirage.calibration.declared_settings import DeclaredSettings
from mirage.calibration.fit_mechanisms import TraceSlice, fit
from mirage.calibration.held_back import held_back_effects, origins
from mirage.calibration.inferred.capacity import queued
from mirage.calibration.mechanisms import Mechanisms, Site
from mirage.duration import DAY_S
from mirage.report.terminal.calibration_text import facts, judged_worse, survival_words
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from tests.support.made_up_site import Row, table

SETTINGS = SlurmSettings()
FITTED, AFTER = TraceSlice(14 * DAY_S, 42 * DAY_S), TraceSlice(42 * DAY_S, 60 * DAY_S)


def days(first: int, last: int, *, limited: bool, pause_h: float = 0.0) -> list[Row]:
    """Every day ada submits two jobs for which there is room.

    With a limit the second starts after the first.
    """
    rows: list[Row] = []
    for day in range(first, last):
        at = 24.0 * day
        rows += [("ada", at, at, 3.0 + day % 3, 1)]
        rows += [("ada", at, at + (3.0 + day % 3 + pause_h if limited else 0.01), 2.0, 2)]
        rows += [("bob", at + 9, at + 9, 1.0, 7)]
    return rows


@pytest.fixture
def only_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit_mechanisms, "choices", lambda *_: {"user_jobs": (None, 1)})


def site(*rows: Row) -> Site:
    return Site.of(queued(table(*rows)), SETTINGS, FITTED.from_s, FITTED.until_s)


def test_a_slice_is_divided_at_origins_of_equal_distance() -> None:
    assert origins(TraceSlice(0, 27 * DAY_S)) == ()
    assert origins(TraceSlice(5, 5 + 31 * DAY_S)) == (
        (TraceSlice(5, 5 + 14 * DAY_S), TraceSlice(5 + 14 * DAY_S, 5 + 31 * DAY_S)),
    )
    divided = origins(TraceSlice(0, 90 * DAY_S))
    assert [held.from_s // DAY_S for _, held in divided] == [14, 33, 52, 71]
    assert [held.until_s // DAY_S for _, held in divided] == [33, 52, 71, 90]
    assert all(part == TraceSlice(0, held.from_s) for part, held in divided)


@pytest.mark.usefixtures("only_limits")
def test_a_mechanism_that_makes_held_back_slices_worse_is_left_out() -> None:
    """The held-back half contradicts the limit.

    It fits the first half of the fitted slice, and the judged slice.
    """
    world = site(*days(0, 28, limited=True), *days(28, 42, limited=False), *days(42, 60, limited=True))
    part = TraceSlice(FITTED.from_s, 28 * DAY_S)
    assert fit(world, part) == Mechanisms(user_jobs=1)
    (effect,) = held_back_effects(world, FITTED)
    assert (effect.name, effect.slices, effect.left_out) == ("user_jobs", 1, True)
    assert effect.error_with > effect.error_without + 0.3
    found = Calibration.of("jobs.csv", DeclaredSettings(SETTINGS, "conf"), world, (FITTED, AFTER))
    assert found.best == Mechanisms()
    assert found.to_json()["held_back"]["user_jobs"]["left_out"] is True
    (fact,) = (fact for fact in facts(found) if fact.name == "left out")
    assert fact.found.startswith("the limit of users: on the slice held back the moving average is off by ")
    assert survival_words(found) == (
        "Left out, because held-back parts of the fitted slice were closer without: the limit of users."
    )


@pytest.mark.usefixtures("only_limits")
def test_a_mechanism_that_holds_in_held_back_slices_stays_though_the_judged_slice_contradicts() -> None:
    world = site(*days(0, 42, limited=True), *days(42, 60, limited=False))
    found = Calibration.of("jobs.csv", DeclaredSettings(SETTINGS, "conf"), world, (FITTED, AFTER))
    assert found.best == Mechanisms(user_jobs=1)
    (effect,) = found.held_back
    assert not effect.left_out
    assert effect.error_without > effect.error_with + 0.3
    assert not any(fact.name == "left out" for fact in facts(found))
    assert survival_words(found) == "Every mechanism made held-back parts of the fitted slice closer, or no worse."
    (sentence,) = judged_worse(found)
    assert sentence.startswith("On the judged slice, the limit of users made replays worse: error ")


@pytest.mark.usefixtures("only_limits")
def test_a_slice_that_is_too_short_to_divide_is_reported() -> None:
    world = site(*days(0, 60, limited=True))
    short = TraceSlice(FITTED.from_s, 41 * DAY_S)
    assert held_back_effects(world, short) == ()
    found = Calibration.of("jobs.csv", DeclaredSettings(SETTINGS, "conf"), world, (short, AFTER))
    assert survival_words(found).startswith("No slice was held back, because the fitted one spans less than four weeks")


def test_the_most_harmful_mechanism_is_left_out_first_and_others_are_judged_without_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Next to the limit the turnover seems harmful; without the limit it helps."""
    best = Mechanisms(user_jobs=3, turnover_s=60, age=500.0)
    errors = {
        best: 1.0,
        replace(best, user_jobs=None): 0.4,
        replace(best, turnover_s=0): 0.8,
        replace(best, age=0.0): 1.2,
        replace(best, user_jobs=None, turnover_s=0): 0.7,
        replace(best, user_jobs=None, age=0.0): 0.398,
    }
    monkeypatch.setattr("mirage.calibration.held_back.fit", lambda *_, **__: best)
    monkeypatch.setattr("mirage.calibration.held_back._most_replays", lambda *_: [0])
    monkeypatch.setattr("mirage.calibration.held_back.judged", lambda site, chosen, held: chosen)
    monkeypatch.setattr("mirage.calibration.held_back.error", lambda chosen: errors[chosen])
    monkeypatch.setattr("mirage.calibration.held_back._mean_mape", lambda found: None)
    effects = {one.name: one for one in held_back_effects(site(*days(0, 42, limited=False)), FITTED)}
    assert {name: one.left_out for name, one in effects.items()} == {
        "user_jobs": True, "turnover_s": False, "age": False,
    }  # fmt: skip
    assert (effects["user_jobs"].error_with, effects["user_jobs"].error_without) == (1.0, 0.4)
    assert (effects["turnover_s"].error_with, effects["turnover_s"].error_without) == (0.4, 0.7)


@pytest.mark.usefixtures("only_limits")
def test_replays_of_all_fits_are_counted_together() -> None:
    counts: list[tuple[int, int]] = []
    world = site(*days(0, 28, limited=True), *days(28, 60, limited=False))
    declared = DeclaredSettings(SETTINGS, "conf")
    Calibration.of("x", declared, world, (FITTED, AFTER), lambda done, most, _: counts.append((done, most)))
    done, most = zip(*counts)
    assert list(done) == sorted(set(done))
    assert set(most) == {2 * (2 + 4)}
    assert max(done) <= most[0]
