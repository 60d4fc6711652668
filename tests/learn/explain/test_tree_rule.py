"""Trees in text as policies: they run, can be edited, and report errors when made."""

import dataclasses

import numpy as np
import pytest

from mirage.duration import HOUR_S
from mirage.errors import ConfigurationError, ModelFileError
from mirage.forecast.shared_futures import shared_futures
from mirage.learn.explain.readable_columns import COLUMNS, columns_in, rows_of
from mirage.learn.explain.tree_rule import TreeRule, tree_rule_of
from mirage.learn.features.forecast_features import forecast_of
from mirage.learn.features.hand_over_features import feature_names, features_of
from mirage.policy.check_policy import check_policy
from mirage.policy.example_views import example_views
from mirage.policy.plan import Submit, Wait
from mirage.policy.policy_registry import make_policy

PLAIN = """\
tree: 1  # by hand
features:
    remaining: duration
    free_nodes: number
answers: wait, submit

if remaining < 6h:
    submit
else:
    if free_nodes < 2:
        submit
    else:
        wait
"""

FORECAST = """\
tree: 1
features:
    remaining: duration
    spare_p80: duration
answers: wait, submit
settings:
    policy: what-if
    cost: 3:1
    futures: 4

if spare_p80 < 30min:
    submit
else:
    wait
"""


@pytest.fixture
def written(tmp_path):
    def write(text):
        path = tmp_path / "tree.txt"
        path.write_text(text)
        return str(path)

    return write


def half_way():
    return next(view for view in example_views() if view.chain.ends_s - view.now_s == 24 * HOUR_S)


@pytest.mark.parametrize("text", [PLAIN, FORECAST], ids=["plain", "forecast"])
def test_an_agent_would_accept_it(written, text):
    path = written(text)
    check_policy(lambda: make_policy(path))


def test_it_may_begin_with_a_byte_order_mark(written):
    assert make_policy(written(f"\ufeff{PLAIN}")).tree == tree_rule_of(PLAIN)


def test_the_reason_is_the_path_to_the_answer(written):
    policy = make_policy(written(PLAIN))
    plans = [policy.decide(view) for view in example_views()]
    assert [action.reason for plan in plans for action in plan.actions] == [
        "predecessor-pending",
        "tree:wait, as remaining >= 6h and free_nodes >= 2",
        "tree:wait, as remaining >= 6h and free_nodes >= 2",
        "tree:submit, as remaining < 6h",
        "tree:submit, as remaining < 6h",
        "ended",
    ]
    view = half_way()
    plan = policy.decide(view)
    assert plan.actions[0].until_s == view.now_s + view.chain.step_s
    assert plan.estimate == {"remaining_s": 24 * HOUR_S, "free_nodes": float(view.nodes.free[0, 0])}


def test_a_hand_changes_what_it_decides(written):
    (before,) = make_policy(written(PLAIN)).decide(half_way()).actions
    (after,) = make_policy(written(PLAIN.replace("< 6h", "< 1d 1h"))).decide(half_way()).actions
    assert (type(before), type(after)) == (Wait, Submit)
    assert after.reason == "tree:submit, as remaining < 1d 1h"


def test_a_forecast_is_made_only_where_the_tree_uses_it():
    futures = shared_futures(4, 0, "slurm", None, ())
    unused = FORECAST.replace("if spare_p80 < 30min:", "if remaining < 30min:")
    assert TreeRule(tree_rule_of(unused), None).decide(half_way()).forecast is None
    plan = TreeRule(tree_rule_of(FORECAST), futures).decide(half_way())
    assert plan.forecast.starts_s.shape[0] == 4
    remaining_s = plan.estimate["remaining_s"]
    assert plan.estimate["spare_p80_s"] == pytest.approx(remaining_s - plan.forecast.wait_quantiles_s((0.8,))[0], abs=1)
    with pytest.raises(ConfigurationError, match="the tree needs a forecast"):
        TreeRule(tree_rule_of(FORECAST), None)


def test_waits_and_spares_fit_together():
    view = half_way()
    forecast = forecast_of(shared_futures(4, 0, "slurm", None, ()).at(view), view.chain)
    values, names = features_of(view, forecast)
    columns = columns_in(names)
    assert [column.feature.name for column in columns] == list(COLUMNS)
    row = rows_of(columns, values[None], names, np.array([24 * HOUR_S]))[0]
    of = {column.feature.name: value for column, value in zip(columns, row)}
    for level in (50, 80, 95):
        assert of[f"wait_p{level}"] + of[f"spare_p{level}"] == 24 * HOUR_S
    assert of["pending_nodes"] == view.pending.nodes.sum()
    without = {column.feature.name for column in columns_in(feature_names(forecast=False))}
    assert set(COLUMNS) - without == {name for name, column in COLUMNS.items() if column.needs_forecast}


KNOWN = ", ".join(sorted(COLUMNS))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("free_nodes", "free_node", f"unknown feature 'free_node'. Did you mean 'free_nodes'? Known: {KNOWN}."),
        (
            "free_nodes: number",
            "free_nodes: duration",
            "feature 'free_nodes' is a number and not a duration; write 'free_nodes: number'",
        ),
        ("answers: wait, submit", "answers: wait, submit, hold", "unknown answer 'hold'. Known: submit, wait."),
        (
            "answers: wait, submit\n",
            "answers: wait, submit\nsettings:\n    future: 3\n",
            "unknown setting 'future'. Did you mean 'futures'? Known: cost, futures, policy.",
        ),
        (
            "answers: wait, submit\n",
            "answers: wait, submit\nsettings:\n    futures: many\n",
            "setting 'futures' is 'many'; give a number of futures, such as 32",
        ),
        ("remaining < 6h:", "remaining < 6:", ":7:16: '6' is not a duration; write it as 6h, 30min, 45s or 1d 4h"),
    ],
)
def test_errors_are_reported_when_it_is_made(written, old, new, message):
    text = PLAIN.replace(old, new)
    path = written(text if "free_nodes: duration" not in text else text.replace("free_nodes < 2", "free_nodes < 2s"))
    with pytest.raises(ConfigurationError) as error:
        make_policy(path)
    assert str(error.value) == (f"{path}{message}" if message.startswith(":") else f"{path}: {message}")


def test_a_tree_begins_with_the_word_and_one_of_numbers_decides_nothing(written):
    with pytest.raises(ModelFileError, match=r"begins with '# ours', and no policy begins so.* begins with 'tree:'"):
        make_policy(written("# ours\n" + PLAIN))
    with pytest.raises(ConfigurationError, match="the tree answers numbers, as those of mirage distill do"):
        make_policy(written("tree: 1\nfeatures:\n    remaining: duration\nvalues: duration\n\n6h\n"))


def test_an_edited_file_is_read_again(written):
    path = written(PLAIN)
    assert isinstance(make_policy(path).decide(half_way()).actions[0], Wait)
    written(PLAIN.replace("wait\n", "submit\n"))
    assert isinstance(make_policy(path).decide(half_way()).actions[0], Submit)
    assert dataclasses.is_dataclass(make_policy(path).tree)
