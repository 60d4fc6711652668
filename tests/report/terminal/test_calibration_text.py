"""A calibration on the terminal: facts with sources, shares of mechanisms, causes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mirage.calibration.calibration_result import Calibration
from mirage.calibration.declared_settings import read_declared_settings
from mirage.calibration.mechanisms import Mechanisms
from mirage.duration import HOUR_S
from mirage.report.terminal import calibration_text
from mirage.report.terminal.calibration_text import Fact, fact_words, facts, print_calibration, share_words
from tests.support.printed_text import printed
from tests.support.report_samples import calibration

SHOWN = calibration()


def known_facts(found: Calibration) -> dict[str, tuple[str, str]]:
    return {fact.name: (fact.found, fact.known) for fact in facts(found)}


def fitted(**values: Any) -> dict[str, tuple[str, str]]:
    return known_facts(replace(SHOWN, best=replace(SHOWN.best, **values)))


def test_all_of_it_is_printed() -> None:
    lines = printed(lambda console: print_calibration(SHOWN, console), 160)
    assert lines[0] == "the cluster of <bold>data/jobs.csv</>"
    assert lines[1] == "  scheduler: parameters from slurm.conf (declared)"
    assert (
        "  users: 25% of jobs (30 of 120) follow a start or an end of the same user's within 20 minutes, 5% by chance; "
        "unused in replays (inferred)"
    ) in lines
    rows = [" ".join(line.split()) for line in lines]
    assert "without weather 18.7% 0.96 (0.95..0.97) 37.5% 0.86 (0.84..0.87) 5.51 h 4.00 h" in rows
    assert "no cause visible in accounts 20% 5% 40% 6%" in rows
    assert lines[-1].startswith("38% of the moving average of waits after the fit has no explanation")


def test_a_fact_has_its_source() -> None:
    assert fact_words(Fact("age", "much", "fitted")) == "age: much (fitted)"
    assert known_facts(SHOWN) | {
        "usual capacity": ("17 nodes, the number that lasted longest", "inferred"),
        "nodes over time": ("1 to 17; dips of nodes in use up to 12:00:00 filled in", "inferred"),
        "limit of users": ("none: there is no plateau of running jobs", "inferred"),
        "priorities": ("computed", "fitted"),
        "age": ("waiting 7-00:00:00 adds 500", "fitted"),
        "between two jobs": ("a node needs 15 s", "fitted"),
    } == known_facts(SHOWN)


def test_what_is_not_modelled_is_not_listed() -> None:
    found = known_facts(replace(SHOWN, best=Mechanisms()))
    assert found["nodes over time"] == ("constant", "fitted")
    assert not {"outages", "between two jobs", "fair-share", "job size"} & found.keys()
    assert fitted(think_time_s=1200)["users"][0].endswith("5% by chance; used in replays")
    assert fitted(recorded=True)["priorities"] == (
        "those recorded at submission, except for age", "recorded",
    )  # fmt: skip
    assert fitted(size=-62.5)["job size"] == ("weight 62 of the job's smallness", "fitted")
    assert fitted(size=125.0, fairshare=1000.0)["fair-share"] == ("weight 1,000", "fitted")


def test_a_plateau_is_listed_with_the_users_at_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from mirage.calibration.inferred.user_job_limit import UserLimit

    monkeypatch.setattr(calibration_text, "user_job_limit", lambda _: UserLimit(8, 6, 808.4))
    reached = "6 users reached it while more of their jobs waited, for 808 hours in total"
    assert fitted(user_jobs=8)["limit of users"] == (f"a user runs at most 8 jobs at once; {reached}", "inferred")
    assert fitted(user_jobs=None)["limit of users"] == (
        f"a plateau at 8 running jobs ({reached}), but replays without a limit come closer", "inferred",
    )  # fmt: skip


def test_declared_limits_replace_inferred_ones(tmp_path: Path) -> None:
    path = tmp_path / "qos.txt"
    path.write_text("Name|Priority|Preempt|MaxJobsPU|GrpTRES\nnormal|0||8|\ndebug|5|||node=2\n")
    given = read_declared_settings(qos=str(path))
    found = replace(SHOWN, declared=given, site=replace(SHOWN.site, qos=given.qos))
    assert [(fact.found, fact.known) for fact in facts(found) if fact.name.startswith("limit")] == [
        (f"8 jobs per user of QOS normal, from {path}", "declared"),
        (f"2 nodes of all together of QOS debug, from {path}", "declared"),
    ]
    path.write_text("Name|Priority|Preempt|MaxJobsPU\nnormal|0||\n")
    given = read_declared_settings(qos=str(path))
    found = replace(SHOWN, declared=given, site=replace(SHOWN.site, qos=given.qos))
    assert known_facts(found)["limit"] == (f"none in {path}", "declared")
    assert known_facts(found)["limit of users"][1] == "inferred"


def test_a_mechanism_without_words_is_listed_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    weather = next(row for row in SHOWN.rows if row.name == "weather_s")
    assert share_words(weather) == "without weather"
    known = [
        name for name in calibration_text._IN_WORDS if name not in ("turnover_s", "dip_s", "user_jobs", "recorded")
    ]
    monkeypatch.setattr(calibration_text, "_IN_WORDS", known)
    found = fitted(turnover_s=15, dip_s=12 * HOUR_S, user_jobs=1_200, recorded=True)
    assert found["turnover"] == ("00:00:15", "fitted")
    assert found["dip"] == ("12:00:00", "fitted")
    assert found["user jobs"] == ("1,200", "fitted")
    assert found["recorded"] == ("yes", "fitted")
