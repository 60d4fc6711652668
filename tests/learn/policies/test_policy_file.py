"""Policies in files: their decisions, where they decide as what-if, and what is no policy."""

from dataclasses import replace

import numpy as np
import pytest

from mirage.duration import DAY_S, HOUR_S
from mirage.errors import ConfigurationError, ModelFileError
from mirage.forecast.shared_futures import shared_futures
from mirage.learn.policies import policy_file
from mirage.learn.policies.learned_provisioner import LearnedProvisioner
from mirage.learn.ranges import Ranges
from mirage.learn.regression.model_contract import TrainingSettings, inputs_at
from mirage.learn.training.method_trials import outside_share, submitted_rows
from mirage.learn.training.methods import METHODS
from mirage.learn.training.train_policy import CardDetails, Slices, train_policy, tuned_figures
from mirage.learn.training.trained_policy import LinkSizeModel, TrainedPolicy, read_trained, train_link_size
from mirage.policy.check_policy import check_policy
from mirage.policy.cost import Cost
from mirage.policy.example_views import example_views, queued_views
from mirage.policy.plan import Release, Submit, Wait
from mirage.policy.policy_registry import FROM_FILE, make_policy
from mirage.policy.policy_settings import PolicySettings
from mirage.policy.view import Ended, QueuedLink
from mirage.provision.link_size import LinkSize
from tests.support.made_up_hand_overs import BEGIN_S, before_and_after, made_up_hand_overs

pytest.importorskip("xgboost", reason="pip install mirage-hpc[learn]")
pytest.importorskip("safetensors", reason="pip install mirage-hpc[learn]")

SLICES = Slices(BEGIN_S + 14 * DAY_S, BEGIN_S + 20 * DAY_S)
SETTINGS = TrainingSettings(rounds=8, most_rows=1000, trees=2)
HISTORY_ONLY = "xgboost-2023"


@pytest.fixture(scope="module")
def data():
    return before_and_after(made_up_hand_overs(24, nodes=1), 20)[0]


@pytest.fixture(scope="module")
def trained(data):
    return train_policy({1: "correction"}, data, SLICES, CardDetails("made-up", 8), SETTINGS)


@pytest.fixture(scope="module")
def model(trained, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "model"
    trained.save(path)
    return path


def wide(trained: TrainedPolicy, method: str = "correction") -> TrainedPolicy:
    """The trained policy, with ranges that hold everything."""
    part = trained.parts[1]
    names = part.model.inputs
    everything = Ranges(names, np.full(len(names), -1e9), np.full(len(names), 1e9), np.zeros(len(names), dtype=bool))
    return TrainedPolicy({1: LinkSizeModel(method, part.model, everything)}, trained.trained_on, {}, trained.futures)


def views():
    """A chain with a link half-way, then four hours before its end, then at its end."""
    return [view for view in example_views() if view.chain.started_s != -1][1:]


def test_the_card_states_the_training_data_and_settings(trained, model):
    card = read_trained(model).card
    assert card.settings["sizes"]["1"]["method"] == "correction"
    assert {feature.name for feature in card.features} == set(trained.parts[1].model.inputs)
    assert card.figures["gap_low_1"] < card.figures["gap_closed_1"] <= card.figures["gap_high_1"] == 1
    assert card.trained_on.until_s == SLICES.tune_until_s
    assert card.trained_on.first_s == BEGIN_S


def test_the_card_lists_every_input_with_its_unit(trained):
    names = ("gap_h", "wait_s", "free_nodes", "late_share", "pending_jobs")

    class Named:
        inputs = names

        def settings(self):
            return {"width": 3}

    ranges = Ranges(names, np.zeros(5), np.ones(5), np.zeros(5, dtype=bool))
    parts = {8: LinkSizeModel("forest", Named(), ranges, replace(ranges, names=("a",))), 1: LinkSizeModel("what-if")}
    card = TrainedPolicy(parts, trained.trained_on, {"x": 2.0}, 7, {"by": "hand"}).card
    assert {feature.name: feature.unit for feature in card.features} == dict(
        zip(names, ("h", "s", "nodes", "1", "count"), strict=True)
    )
    assert card.settings == {
        "sizes": {
            "1": {"method": "what-if", "inputs": [], "settings": {}, "repeats": []},
            "8": {"method": "forest", "inputs": list(names), "settings": {"width": 3}, "repeats": ["a"]},
        },
        "futures": 7,
        "chosen": {"by": "hand"},
    }
    assert (card.kind, card.schema, card.figures, card.trained_on) == ("hand-overs", 1, {"x": 2.0}, trained.trained_on)


def test_results_on_the_tuning_slice_are_on_the_card(trained, data):
    part, tune = trained.parts[1], before_and_after(data, 14)[1]
    figures = tuned_figures(part, tune)
    rows = submitted_rows(part.model.submits(inputs_at(tune), Cost()), tune)
    hours = tune.outcome_s[rows] / HOUR_S
    assert figures["interruption_h"] == pytest.approx(np.maximum(hours, 0).mean())
    assert figures["overlap_h"] == pytest.approx(np.maximum(-hours, 0).mean())
    assert (figures["windows"], 0 < figures["gap_closed"] <= 1) == (len(rows), True)
    level = replace(tune, outcome_s=np.zeros(len(tune), dtype=np.int64))  # there is no gap to close
    assert tuned_figures(part, level) == {"interruption_h": 0.0, "overlap_h": 0.0, "windows": float(len(rows))}


def test_a_model_file_meets_the_contract_of_policies(trained, tmp_path):
    wide(trained).save(tmp_path / "wide")
    check_policy(lambda: make_policy(str(tmp_path / "wide")))


def test_inside_its_training_the_model_decides(trained, tmp_path):
    wide(trained).save(tmp_path / "wide")
    cheap, dear = (
        [make_policy(str(tmp_path / "wide"), PolicySettings(Cost(ratio, 1))).decide(view) for view in views()]
        for ratio in (0.01, 100)
    )
    assert {action.reason for plan in cheap + dear for action in plan.actions} <= {
        "waiting-costs-less:model=correction",
        "waiting-costs-more:model=correction",
        "ended",
    }
    assert sum(plan.submits for plan in cheap) < sum(plan.submits for plan in dear)
    assert cheap[0].forecast is not None
    assert {"wait_p50_s", "late_share", "remaining_s"} <= cheap[0].estimate.keys()


def test_the_training_data_of_a_model_are_known(model, trained):
    assert policy_file.training_data(str(model)) == trained.trained_on


def test_a_feature_outside_its_training_is_decided_as_what_if_does_and_named_with_both_values(model):
    view = next(view for view in example_views() if view.chain.ends_s - view.now_s == 48 * HOUR_S)
    learned, what_if = (make_policy(name, PolicySettings(seed=3)).decide(view) for name in (str(model), "what-if"))
    reason = learned.actions[0].reason
    words = "feature=remaining_h,value=48,trained=23,allowed=25.2"
    assert reason == f"outside-training:{words},what-if={what_if.actions[0].reason}"
    assert learned.submits == what_if.submits


def with_repeats(data, *shares):
    """Equal decisions; limits are repeated in one share or the other by turns, nodes always."""
    shares = np.resize(shares, len(data))
    return replace(data, repeats=np.column_stack([shares, np.ones(len(data))]).astype(np.float32))


def after(view, limits_s):
    """The view after jobs of one user with some limits."""
    end_s, zero = np.full(len(limits_s), view.now_s - HOUR_S), np.zeros(len(limits_s), dtype=np.int64)
    history = Ended(zero, zero + 1, np.array(limits_s), end_s - 2, end_s - 1, end_s, zero - 1, zero - 1, zero - 1)
    return replace(view, ended=history)


def test_where_users_repeat_themselves_otherwise_than_in_training_it_decides_as_what_if_does(data, tmp_path):
    small = TrainingSettings(rounds=2, most_rows=1000)
    taught = train_policy({1: "correction"}, with_repeats(data, 0.5, 0.7), SLICES, CardDetails("made-up", 8), small)
    path = str(tmp_path / "model")
    everything = wide(taught).parts[1]
    replace(taught, parts={1: replace(everything, repeats=taught.parts[1].repeats)}).save(path)
    assert read_trained(path).card.settings["sizes"]["1"]["repeats"] == ["repeated_limit_share", "repeated_nodes_share"]
    policy, what_if, view = make_policy(path), make_policy("what-if"), views()[0]
    at_home = [7200, 7200, 3600] * 60 + [3600]  # 60 changes to 3600, 59 back, in 180 jobs with one before them
    assert policy.decide(after(view, at_home)).actions[0].reason.endswith(":model=correction")
    for elsewhere, words in (
        ([3600, 7200] * 60, "value=0,trained=0.5,allowed=0.3"),
        ([3600] * 120, "value=1,trained=0.7,allowed=0.9"),
        ([3600], "value=nan,trained=0.7,allowed=0.9"),
    ):
        changed = after(view, elsewhere)
        plan, its = policy.decide(changed), what_if.decide(changed)
        assert plan.actions[0].reason == (
            f"outside-training:feature=repeated_limit_share,{words},what-if={its.actions[0].reason.partition(':')[0]}"
        )
        assert (plan.submits, plan.estimate) == (its.submits, its.estimate)
    # in a share of the decisions of a data set that users of another kind made
    part = read_trained(path).parts[1]
    assert outside_share(part, with_repeats(data, 0.2, 0.4)) == pytest.approx(
        12 / 23
    )  # of 24 decisions all but the last
    with pytest.raises(ConfigurationError, match="make them again"):
        outside_share(part, data)


def test_a_model_that_knows_of_no_repeats_decides_anywhere(data, trained, tmp_path):
    assert trained.parts[1].repeats is None  # its data tell nothing of them
    few = replace(data, repeats=np.full((len(data), 2), np.nan, dtype=np.float32))
    assert train_link_size("correction", *before_and_after(few, 14), TrainingSettings(rounds=1)).repeats is None
    wide(trained).save(tmp_path / "older")
    plan = make_policy(str(tmp_path / "older")).decide(after(views()[0], [3600, 7200] * 60))
    assert plan.actions[0].reason.endswith(":model=correction")


def test_a_size_it_was_not_trained_for_is_decided_as_what_if_does(trained, tmp_path):
    TrainedPolicy({4: trained.parts[1]}, trained.trained_on, {}, 8).save(tmp_path / "of-four")
    reason = make_policy(str(tmp_path / "of-four")).decide(views()[0]).actions[0].reason
    assert reason.startswith("outside-training:feature=link_nodes,value=1,trained=4,what-if=")


@pytest.mark.parametrize(
    ("link", "cluster_nodes", "found"),
    [
        (LinkSize(1, 12 * HOUR_S), 33, None),
        (LinkSize(1, 12 * HOUR_S), None, None),
        (LinkSize(2, 12 * HOUR_S), 33, ("link_nodes", 2, 1)),
        (LinkSize(1, 12 * HOUR_S), 8, ("total_nodes", 8, 33)),
        (LinkSize(1, 6 * HOUR_S), None, ("link_limit_h", 6, 12)),
    ],
)
def test_a_link_or_a_cluster_that_is_always_outside_its_training_is_known_before(
    trained, model, link, cluster_nodes, found
):
    at = np.array([3.0, 12.0, 33.0])
    ranges = Ranges(("mean_wait_h", "link_limit_h", "total_nodes"), at, at, np.zeros(3, dtype=bool))
    part = replace(trained.parts[1], ranges=ranges)
    made = make_policy(str(model))
    policy = LearnedProvisioner(replace(trained, parts={1: part}), Cost(), made.what_if, None)
    outside = policy.always_outside(link, cluster_nodes)
    assert (outside and outside[:3]) == found


def test_a_size_for_which_nothing_learnt_is_better_is_what_if(trained, tmp_path):
    TrainedPolicy({1: LinkSizeModel("what-if")}, trained.trained_on, {}, 0).save(tmp_path / "none")
    for view in views():
        assert make_policy(str(tmp_path / "none")).decide(view) == make_policy("what-if").decide(view)


def test_a_model_that_reads_the_history_sees_it_in_a_view(data, tmp_path):
    train_policy({1: HISTORY_ONLY}, data, SLICES, CardDetails("made-up"), SETTINGS).save(tmp_path / "old")
    policy = make_policy(str(tmp_path / "old"))
    plans = [policy.decide(view) for view in views()]
    assert all("gap_h" in plan.estimate for plan in plans[:-1])
    assert {plan.forecast for plan in plans} == {None}
    assert isinstance(plans[-1].actions[0], Submit)


def test_chains_share_the_futures_of_the_queue(model):
    first, second = (make_policy(str(model), PolicySettings(cost)) for cost in (Cost(), Cost(5, 1)))
    assert first.futures is second.futures is shared_futures(8, 0, "slurm", None, ())
    view = views()[0]
    assert first.futures.at(view) is second.futures.at(view)


def held(view, *, aged=True):
    """The view with the next link in the queue, held, with the age of a day or without any."""
    since_s = view.now_s - DAY_S
    link = QueuedLink(99, since_s, since_s if aged else -1, view.chain.limit_s, held=True)
    return replace(view, chain=replace(view.chain, queued=link))


def test_a_model_revises_a_queued_link_as_the_rule_of_holds(trained, tmp_path):
    wide(trained).save(tmp_path / "wide")
    policy = make_policy(f"holds:by={tmp_path}/wide")
    four_hours_left, ended = views()[1], views()[-1]
    assert policy.decide(held(four_hours_left, aged=False)).actions == (
        Release(reason="waiting-costs-more:model=correction"),
    )
    stays = policy.decide(held(four_hours_left))  # with its age it would start at once
    assert [type(action) for action in stays.actions] == [Wait]
    assert stays.actions[0].reason == "waiting-costs-less:model=correction"
    assert policy.decide(held(ended)).actions == (Release(reason="ended"),)
    check_policy(lambda: make_policy(f"holds:by={tmp_path}/wide"), revises_queued_link=True)


def test_a_model_submits_ahead_of_time_where_it_would_if_interruptions_were_dearer(trained, tmp_path):
    wide(trained).save(tmp_path / "wide")
    view = replace(views()[0], chain=replace(views()[0].chain, ends_s=views()[0].now_s + 12 * HOUR_S))
    plain = {cost: make_policy(f"{tmp_path}/wide", PolicySettings(Cost(cost, 1))) for cost in (1, 10)}
    assert {cost: policy.decide(view).submits for cost, policy in plain.items()} == {1: False, 10: True}
    plans = {times: make_policy(f"holds:insure={times}:by={tmp_path}/wide").decide(view) for times in (1, 10)}
    assert not plans[1].submits
    assert [action.reason for action in plans[10].actions] == ["may-be-needed", "look-soon"]


def test_outside_its_training_a_held_link_is_decided_as_what_if_does(model):
    view = held(next(view for view in example_views() if view.chain.ends_s - view.now_s == 48 * HOUR_S))
    learned, rule = (make_policy(name, PolicySettings(seed=3)) for name in (f"holds:by={model}", "holds"))
    plan, its = learned.decide(view), rule.decide(view)
    assert [type(action) for action in plan.actions] == [type(action) for action in its.actions]
    assert plan.actions[0].reason.startswith("outside-training:feature=remaining_h")


def test_a_model_that_cannot_decide_about_a_held_link_is_refused_as_a_rule_of_holds(data, tmp_path):
    train_policy({1: HISTORY_ONLY}, data, SLICES, CardDetails("made-up"), SETTINGS).save(tmp_path / "old")
    for name in (f"{tmp_path}/old", "average"):
        with pytest.raises(ConfigurationError, match="cannot know what a held link would do; name the file of a model"):
            make_policy(f"holds:by={name}")
    with pytest.raises(ModelFileError, match="no such file"):
        make_policy(f"holds:by={tmp_path}/none")
    with pytest.raises(ConfigurationError, match="revises queued links itself"):
        make_policy("holds:by=holds:bank=yes")
    with pytest.raises(ConfigurationError, match="futures, tie would only configure what-if"):
        make_policy("holds:tie=0:futures=8:by=what-if")
    with pytest.raises(ConfigurationError, match="got 'by='"):
        make_policy("holds:by=")


def test_a_model_may_lie_in_a_folder_with_a_colon_in_its_name(trained, tmp_path):
    (tmp_path / "a:b").mkdir()
    wide(trained).save(tmp_path / "a:b" / "wide")
    named, plain = (make_policy(f"holds:insure=2:by={path}") for path in (f"{tmp_path}/a:b/wide", "what-if:64"))
    assert named.rule.trained.parts.keys() == {1}
    assert plain.rule.forecaster.futures == 64


def test_a_link_that_competes_is_not_in_its_own_way(data, tmp_path):
    train_policy({1: "forest"}, data, SLICES, CardDetails("made-up", 8), SETTINGS).save(tmp_path / "model")
    policy, competing = make_policy(f"{tmp_path}/model"), 0
    for view in queued_views():
        others = view.pending.id != view.chain.queued.job
        competing += int((~others).sum())
        alone = replace(view, pending=view.pending[others])
        own, without = (policy._decision(each, view.chain, policy.trained.parts[1])[0] for each in (view, alone))
        assert np.array_equal(own.features, without.features)
        assert np.array_equal(own.history(), without.history())
    assert competing == 2  # so often it competes among the views


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no such file; mirage train makes one"),
        (b"# once upon a time\n", "a text that begins with '# once upon a time'"),
        (b"\0\1\2\3" * 50, "no model file"),
        (b"", "no model file"),
    ],
)
def test_what_is_no_policy_is_refused(tmp_path, content, message):
    path = tmp_path / "model"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ModelFileError, match=message):
        make_policy(str(path))


def test_a_folder_is_no_policy(tmp_path):
    with pytest.raises(ModelFileError, match="that is a folder; a policy is a file"):
        make_policy(str(tmp_path))


def test_a_damaged_model_is_refused(model, tmp_path):
    content = bytearray(model.read_bytes())
    content[-20] ^= 255
    (tmp_path / "damaged").write_bytes(content)
    with pytest.raises(ModelFileError, match="damaged"):
        make_policy(str(tmp_path / "damaged"))


def test_a_text_is_recognised_by_its_first_line(tmp_path, monkeypatch):
    (tmp_path / "hedge.py").write_text("def policy(path, *, cost, **more):\n    return Clipped(path, cost)\n")
    with open(tmp_path / "hedge.py", "a") as module:
        module.write("class Clipped:\n    decide = None.__eq__\n")
        module.write("    def __init__(self, *made_of): self.made_of = made_of\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(policy_file.TEXTS, "hedge", "hedge:policy")
    path = tmp_path / "tree.txt"
    path.write_text("hedge 1\nif wait_h > 3: submit\n")
    assert make_policy(str(path), PolicySettings(Cost(3, 1))).made_of == (str(path), Cost(3, 1))


def test_all_code_that_a_file_s_policy_may_run_is_named():
    models = {method.model.partition(":")[0] for method in METHODS.values()}
    texts = {entry.partition(":")[0] for entry in policy_file.TEXTS.values()}
    assert set(FROM_FILE.loads) == models | texts
