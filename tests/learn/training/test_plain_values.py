"""Results as plain values, and checks of packages before the work."""

import json
import re
import sys
from dataclasses import replace

import pytest

from mirage.errors import ConfigurationError, UnknownName
from mirage.extras import install
from mirage.learn.required_packages import check_packages, installed_version
from mirage.learn.training.comparison.claims import HOLDS, OPEN, Claim
from mirage.learn.training.comparison.method_comparison import judged
from mirage.learn.training.method_choice import MethodResult, choose
from mirage.learn.training.methods import METHODS, check_installed, versions
from mirage.learn.training.stored_steps import StoredSteps
from mirage.provision.evaluation.paired import Difference
from tests.support.method_comparison import plan, seeds_of


def test_a_comparison_is_stored_with_all_of_its_tables() -> None:
    found = judged(plan(), {2: seeds_of((0, 1))})
    plain = json.loads(json.dumps(found.to_json()))
    assert list(plain) == ["rows", "months", "differences", "seeds", "claims", "under_load", "intervals"]
    assert [row["policy"] for row in plain["rows"]] == [row.policy for row in found.evaluation.rows]
    assert len(plain["months"]) == len(found.evaluation.months)
    against = [one["against"] for one in plain["differences"]]
    assert against == [one.against for one in (*found.evaluation.differences, *found.against_reactive)]
    assert set(against) == {"what-if", "reactive"}
    assert {(one.load, one.month) for one in found.against_reactive} == {("all", "all")}
    assert {seed: [row["policy"] for row in rows] for seed, rows in plain["seeds"].items()} == {
        str(seed): [row.policy for row in rows] for seed, rows in found.seeds.items()
    }
    assert [claim["policy"] for claim in plain["claims"]] == [claim.policy for claim in found.claims]
    assert [one["row"]["policy"] for one in plain["under_load"]] == [one.row.policy for one in found.under_load]
    assert plain["under_load"][0]["more_of_all"] == found.under_load[0].more_of_all
    assert plain["intervals"] == found.evaluation.intervals


def test_a_claim_is_stored_with_its_verdicts() -> None:
    claim = Claim("average", 1, "medium", 9, 4.0, 2.0, 1.0, 0.5, (0.2, 0.5), 0.5, None, 0.1)
    plain = claim.to_json()
    assert (plain.pop("less_verdict"), plain.pop("without_verdict")) == (HOLDS, OPEN)
    assert Claim(**plain) == claim


def difference(policy: str, cost: float, interval: tuple[float, float] | None, **changes: object) -> Difference:
    p_value = None if interval is None else 0.2 if interval[0] <= 0 <= interval[1] else 0.01
    figures = cost, 0.0, 0.0, interval, None, None, p_value, p_value
    return replace(Difference(policy, "what-if", 8, "all", "all", 3.0, 99, *figures), **changes)


def test_a_choice_states_what_was_tried_at_every_cost() -> None:
    tried = [
        difference("a", -0.5, (-0.94, -0.1)), difference("a", -0.25, (-0.5, -0.2), cost_ratio=None),
        difference("b", 0.75, None, windows=7),
    ]  # fmt: skip
    others = [{"link_nodes": 2}, {"load": "heavy"}, {"month": "2023-03"}, {"policy": "c"}]
    found = choose(8, [*tried, *(difference("a", 9.0, None, **{**change}) for change in others[:3]),
                       difference("c", 9.0, None)], ["a", "b"])  # fmt: skip
    expected = "-0.50 (-0.94 … -0.10) at 3:1, -0.25 (-0.50 … -0.20) at free overlap"
    assert (found.method, found.reason) == ("a", f"costs less than what-if beyond doubt: {expected}")
    assert found.tried == (
        MethodResult("a", 3.0, 99, -0.5, (-0.94, -0.1), "better"),
        MethodResult("a", None, 99, -0.25, (-0.5, -0.2), "better"), MethodResult("b", 3.0, 7, 0.75, None, ""),
    )  # fmt: skip
    assert found.to_json()["tried"][2] == {
        "method": "b", "cost_ratio": 3.0, "windows": 7, "cost": 0.75, "interval": None, "verdict": "",
    }  # fmt: skip
    doubtful = choose(8, [tried[2], difference("a", -0.5, (-0.9, 0.0))], ["b", "a"])
    assert doubtful.reason == ("no learned method costs less beyond doubt; nearest is a: -0.50 (-0.90 … +0.00) at 3:1")
    assert choose(8, [tried[2]], ["b"]).reason.endswith("nearest is b: +0.75 (no interval) at 3:1")
    assert (choose(8, [], ["a"]).method, choose(8, [], ["a"]).reason) == ("what-if", "nothing was tried")


def test_packages_that_are_absent_are_named_before_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    check_installed(["forest", "correction"])
    monkeypatch.setitem(sys.modules, "xgboost", None)
    monkeypatch.setattr("mirage.learn.required_packages.find_spec", lambda name: None if name == "xgboost" else name)
    check_installed(["forest"])
    message = f"^training needs XGBoost, which is not installed; run: {re.escape(install('learn'))}$"
    with pytest.raises(ConfigurationError, match=message):
        check_installed(["forest", "correction", "boosted"])
    monkeypatch.setattr("mirage.learn.required_packages.find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=r"^training needs pyarrow, safetensors, scikit-learn, which are not "):
        check_installed(["forest"])
    with pytest.raises(ConfigurationError, match=r"^a data set needs pyarrow, which is not installed; "):
        check_installed([])
    with pytest.raises(UnknownName, match="unknown method 'forrest'"):
        check_installed(["forrest"])


def test_versions_are_those_of_the_packages_that_are_used() -> None:
    import numpy as np
    import sklearn

    assert versions(["forest"]) == (f"numpy {np.__version__}", f"sklearn {sklearn.__version__}")
    assert [text.partition(" ")[0] for text in versions(METHODS)] == ["numpy", "sklearn", "torch", "xgboost"]
    assert installed_version("no_such_module") == ""
    with pytest.raises(ConfigurationError, match=r"^a test needs no_such_module, which is not installed"):
        check_packages("a test", ["no_such_module", "numpy"])


def test_steps_are_reported_with_their_location() -> None:
    reported: list[str] = []
    StoredSteps(None, reported.append).report("half")
    StoredSteps(None, reported.append).under("8").under("forest").report("half")
    StoredSteps().report("nowhere")
    assert reported == ["half", "8/forest, half"]
