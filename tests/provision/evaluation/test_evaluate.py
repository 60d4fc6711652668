"""Evaluations: known rows of the published protocol; results depend on the seed only."""

import json
from dataclasses import replace

import numpy as np
import pytest

from mirage.duration import DAY_S, HOUR_S
from mirage.errors import ConfigurationError, UnknownName
from mirage.policy.contract import PolicySpec
from mirage.policy.cost import Cost
from mirage.policy.plan import Plan, Submit, Wait
from mirage.policy.policy_registry import POLICIES, make_policy
from mirage.provision.evaluation.candidate import Candidate, candidates, weighs_cost, window_seed
from mirage.provision.evaluation.episode import Scenario
from mirage.provision.evaluation.evaluate import evaluate
from mirage.provision.evaluation.evaluation_protocol import EvaluationProtocol
from mirage.provision.link_size import LinkSize
from mirage.sim.cluster import Cluster
from mirage.sim.workload import workload
from mirage.study.executors.local_processes import LocalProcesses
from mirage.trace.read_trace import read_trace

LINKS = [LinkSize(1, 12 * HOUR_S), LinkSize(2, 12 * HOUR_S)]
JUDGED = ["reactive", "average", "lead:4", "oracle"]


class Gambler:
    """Submits at random, by the cost, so that a test sees which seed it was given."""

    def __init__(self, *, cost, seed):
        self.random, self.cost = np.random.default_rng(seed), cost

    def decide(self, view):
        if self.random.random() < 0.05 * self.cost.interruption:
            return Plan((Submit(reason="luck"),))
        return Plan((Wait(until_s=view.now_s + 2 * view.chain.step_s),))


@pytest.fixture(autouse=True)
def gambler_is_found(monkeypatch):
    spec = PolicySpec(f"{__name__}:Gambler", "for tests", needs=("cost", "seed"))
    monkeypatch.setitem(POLICIES, "test-gambler", spec)


def protocol(windows=6):
    return EvaluationProtocol.warm(10 * DAY_S, windows=windows, every_s=36 * HOUR_S, step_s=HOUR_S)


def plain(evaluation):
    return [row.to_json() for row in evaluation.rows]


def by(evaluation, **wanted):
    (row,) = [r for r in evaluation.rows if all(getattr(r, k) == v for k, v in wanted.items())]
    return row


def test_rows_hold_the_results_of_the_episodes(busy_setting):
    evaluation = evaluate(busy_setting, protocol(), LINKS, JUDGED, [Cost(3, 1)])
    x_h = np.array([trial.episode.reactive_s for trial in evaluation.trials[2]]) / HOUR_S
    row = by(evaluation, policy="reactive", link_nodes=2, load="all")
    assert row.windows == 6
    assert row.interruption_h == pytest.approx(np.maximum(x_h, 0).mean())
    assert row.cost == pytest.approx(3 * np.maximum(x_h, 0).mean())
    assert (row.overlap_h, row.lead_h, row.gap_closed) == (0, 0, 0)
    assert by(evaluation, policy="oracle", link_nodes=2, load="all").gap_closed == pytest.approx(1)
    costs = {p: by(evaluation, policy=p, link_nodes=1, load="all").cost for p in JUDGED}
    assert costs["oracle"] == min(costs.values())


def test_load_classes_add_up(busy_setting):
    evaluation = evaluate(busy_setting, protocol(), LINKS, ["reactive"])
    rows = [row for row in evaluation.rows if row.link_nodes == 2]
    assert sum(row.windows for row in rows if row.load != "all") == 6
    for row in rows:
        if row.load == "light":
            assert row.interruption_p95_h <= 2


@pytest.mark.slow
def test_the_same_answer_with_one_worker_and_with_two(busy_setting):
    alone = evaluate(busy_setting, protocol(3), LINKS, JUDGED)
    shared = evaluate(busy_setting, protocol(3), LINKS, JUDGED, executor=LocalProcesses(2))
    assert plain(alone) == plain(shared)


@pytest.mark.slow
def test_the_same_answer_after_an_interruption(busy_setting, tmp_path):
    def stop(done, total):
        if done == 2:
            raise KeyboardInterrupt

    policies, costs = ["test-gambler", "oracle"], [Cost(1, 1), Cost(5, 1)]
    whole = evaluate(busy_setting, protocol(), LINKS, policies, costs, seed=7)
    with pytest.raises(KeyboardInterrupt):
        evaluate(busy_setting, protocol(), LINKS, policies, costs, seed=7, progress=stop, resume_dir=str(tmp_path))
    (journal,) = tmp_path.iterdir()
    with open(journal, "a") as file:
        file.write('{"window": 2, "trials": [')  # the machine went down while this was written
    steps = []
    resumed = evaluate(
        busy_setting,
        protocol(),
        LINKS,
        policies,
        costs,
        seed=7,
        progress=lambda *p: steps.append(p),
        resume_dir=tmp_path,
    )
    assert plain(resumed) == plain(whole)
    assert (resumed.reused, steps[0], steps[-1]) == (2, (2, 6), (6, 6))
    assert plain(whole) != plain(evaluate(busy_setting, protocol(), LINKS, policies, costs, seed=8))


def test_more_windows_reuse_those_played_but_another_seed_does_not(busy_setting, tmp_path):
    evaluate(busy_setting, protocol(2), LINKS, ["reactive"], resume_dir=tmp_path)
    assert evaluate(busy_setting, protocol(4), LINKS, ["reactive"], resume_dir=tmp_path).reused == 2
    assert evaluate(busy_setting, protocol(4), LINKS, ["reactive"], seed=1, resume_dir=tmp_path).reused == 0


@pytest.mark.slow
def test_a_longer_study_reuses_the_windows_it_shares_and_decides_alike_in_them(busy_setting, tmp_path):
    """Windows are recognised by their time, under whatever number."""
    short = EvaluationProtocol.warm(15 * DAY_S, windows=3, every_s=2 * DAY_S, step_s=HOUR_S)
    long = EvaluationProtocol.warm(12 * DAY_S, windows=8, every_s=DAY_S, step_s=HOUR_S)
    policies, costs = ["test-gambler"], [Cost(8, 1)]
    alone = evaluate(busy_setting, short, LINKS, policies, costs, seed=7, resume_dir=tmp_path)
    whole = evaluate(busy_setting, long, LINKS, policies, costs, seed=7)
    reusing = evaluate(busy_setting, long, LINKS, policies, costs, seed=7, resume_dir=tmp_path)
    again = evaluate(busy_setting, short, LINKS, policies, costs, seed=7, resume_dir=tmp_path)
    assert (alone.reused, reusing.reused, again.reused) == (0, 3, 3)
    assert plain(reusing) == plain(whole)
    assert plain(again) == plain(alone)
    for link in LINKS:
        assert [trial.to_json() for trial in reusing.trials[link.nodes]] == [
            trial.to_json() for trial in whole.trials[link.nodes]
        ]
        shared = whole.trials[link.nodes][3::2]
        assert [trial.chosen for trial in shared] == [trial.chosen for trial in alone.trials[link.nodes]]
        assert len({str(trial.chosen) for trial in shared}) > 1
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.slow
def test_what_else_is_played_differently_is_not_taken_over(busy_setting, tmp_path):
    evaluate(busy_setting, protocol(2), LINKS, ["reactive"], resume_dir=tmp_path)
    changed = {
        "steps": (replace(protocol(2), step_s=1800), LINKS, ["reactive"]),
        "links": (protocol(2), LINKS[:1], ["reactive"]),
        "policies": (protocol(2), LINKS, ["average"]),
        "a day later": (replace(protocol(2), begin_s=11 * DAY_S), LINKS, ["reactive"]),
    }
    reused = {name: evaluate(busy_setting, *study, resume_dir=tmp_path).reused for name, study in changed.items()}
    assert reused == dict.fromkeys(changed, 0)


def test_a_journal_that_numbers_its_windows_is_played_again(busy_setting, tmp_path):
    """A journal of earlier versions, which has no times, is not used."""
    first = evaluate(busy_setting, protocol(2), LINKS, ["reactive"], resume_dir=tmp_path)
    (journal,) = tmp_path.iterdir()
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    assert [line.pop("key") for line in lines] == [str(protocol().submits_s(0)), str(protocol().submits_s(1))]
    journal.write_text("".join(json.dumps({"window": k, **line}) + "\n" for k, line in enumerate(lines)))
    again = evaluate(busy_setting, protocol(2), LINKS, ["reactive"], resume_dir=tmp_path)
    assert again.reused == 0
    assert plain(again) == plain(first)
    assert evaluate(busy_setting, protocol(2), LINKS, ["reactive"], resume_dir=tmp_path).reused == 2


def test_windows_come_out_alike_whatever_process_played_the_one_before(busy_setting):
    from mirage.provision.evaluation.evaluation_study import Study, begin

    study = Study(busy_setting, protocol(), tuple(LINKS), tuple(candidates(["test-gambler"], [Cost()])), 3)
    all_of_them = dict(LocalProcesses()(begin, study, [0, 1, 2, 3]))
    (alone,) = dict(LocalProcesses()(begin, study, [3])).values()
    assert [trial.to_json() for trial in alone] == [trial.to_json() for trial in all_of_them[3]]


def test_policies_that_weigh_costs_are_made_for_each():
    costs = [Cost(1, 1), Cost(5, 1)]
    keys = [c.key for c in candidates(["lead:4", "test-gambler", "oracle", "lead:4"], costs)]
    assert keys == ["lead:4", "test-gambler@1:1", "test-gambler@5:1"]
    assert (weighs_cost("what-if"), weighs_cost("lead:4")) == (True, False)


def test_seeds_differ_by_window_and_link():
    seeds = {window_seed(seed, link, window) for seed in (0, 1) for link in (1, 8) for window in range(-25, 25)}
    assert len(seeds) == 200


def test_a_policy_that_wants_to_be_left_alone_is(busy_setting):
    evaluation = evaluate(busy_setting, protocol(1), LINKS[:1], ["test-gambler"], [Cost(0.001, 1)])
    (trial,) = evaluation.trials[1]
    assert trial.calls["test-gambler@0.001:1"] == 6  # 11 hourly decisions, every second one


@pytest.mark.parametrize(
    ("policies", "changes", "error", "complaint"),
    [
        (["reactiv"], {}, UnknownName, "Did you mean 'reactive'"),
        (["Oracle"], {}, UnknownName, "Did you mean 'oracle'"),
        (["lead:soon"], {}, ConfigurationError, "lead takes hours"),
        (["reactive:3"], {}, ConfigurationError, "takes no parameter"),
        (
            ["reactive"],
            {"windows": 60},
            ConfigurationError,
            "the last of 60 windows needs jobs after the last job of .* 19 windows fit: give fewer --windows$",
        ),
        (
            ["reactive"],
            {"begin_s": 20 * DAY_S, "windows": 19},
            ConfigurationError,
            r"the last of 19 windows .* 1\d windows fit: give an earlier --start, or fewer --windows$",
        ),
        (
            ["reactive"],
            {"begin_s": 2**40, "windows": 60},
            ConfigurationError,
            "; no window fits: give an earlier --start and fewer --windows$",
        ),
        (
            ["reactive"],
            {"begin_s": 2**40, "windows": 1},
            ConfigurationError,
            "^the window needs jobs after the last job of .*: beyond the year 9999, .*; no window fits: "
            "give an earlier --start$",
        ),
        (["reactive"], {"windows": 0}, ConfigurationError, "at least one window"),
        (["reactive"], {"step_s": 2 * DAY_S}, ConfigurationError, "no policy decides in a link of .*shorter --step"),
        (
            ["reactive"],
            {"begin_s": -10 * DAY_S},
            ConfigurationError,
            "begins before the trace: .*; give a later --start$",
        ),
    ],
)
def test_complaints(busy_setting, policies, changes, error, complaint):
    wanted = EvaluationProtocol.warm(**{"begin_s": 10 * DAY_S, "windows": 2, "every_s": 36 * HOUR_S} | changes)
    with pytest.raises(error, match=complaint):
        evaluate(busy_setting, wanted, LINKS, policies)


def test_a_link_that_is_longer_than_the_trace_is_refused_at_once(busy_setting):
    message = r"a link of 5000-00:00:00 is longer than the trace, .* for \d+-\d\d:.*; give a shorter --link-limit"
    with pytest.raises(ConfigurationError, match=message):
        evaluate(busy_setting, protocol(), [LinkSize(1, 5000 * DAY_S)], ["reactive"])


def test_a_link_that_the_cluster_cannot_run_is_refused_before_anything_is_played(busy_setting, monkeypatch):
    monkeypatch.setattr(Scenario, "simulation", None)
    message = r"a link can never run: it requests 9,999 nodes, and the cluster has \d+; give smaller links"
    with pytest.raises(ConfigurationError, match=message):
        evaluate(busy_setting, protocol(), [LinkSize(9999)], ["reactive"])


@pytest.mark.parametrize(
    "changed",
    [
        {"links": [8]},
        {"links": LINKS[0]},
        {"policies": "reactive"},
        {"policies": [make_policy("reactive")]},
        {"costs": Cost()},
        {"costs": [(3, 1)]},
    ],
)
def test_what_is_no_list_of_links_policies_or_costs_is_refused(busy_setting, changed):
    with pytest.raises(ConfigurationError, match="give lists of links, of names of policies and of costs"):
        evaluate(busy_setting, protocol(), **{"links": LINKS, "policies": ["reactive"], **changed})


def test_what_is_no_scenario_or_no_executor_is_refused(busy_setting):
    with pytest.raises(ConfigurationError, match="give a Scenario and an EvaluationProtocol, got Eval"):
        evaluate(protocol(), busy_setting, LINKS, ["reactive"])
    with pytest.raises(ConfigurationError, match=r"the executor must be an object, .* got 'slurm'"):
        evaluate(busy_setting, protocol(), LINKS, ["reactive"], executor="slurm")


@pytest.mark.parametrize(("links", "costs"), [([], [Cost()]), (LINKS, [])])
def test_a_link_and_a_cost_are_needed(busy_setting, links, costs):
    with pytest.raises(ConfigurationError, match=r"^give a link and a cost at least: \[LinkSize\(1\)\], \[Cost\(\)\]$"):
        evaluate(busy_setting, protocol(), links, ["reactive"], costs)


@pytest.mark.parametrize(("seed", "message"), [(-1, "seed is -1; give 0 or more"), (1.0, "seed is 1.0; give a whole")])
def test_a_bad_seed_is_refused(busy_setting, seed, message):
    with pytest.raises(ConfigurationError, match=message):
        evaluate(busy_setting, protocol(), LINKS, ["reactive"], seed=seed)


def test_a_scenario_needs_a_workload(busy_setting):
    with pytest.raises(ConfigurationError, match=r"must be a Workload of workload\(table, cluster\), got JobTable"):
        replace(busy_setting, jobs=busy_setting.jobs.table)


def test_every_size_of_link_once(busy_setting):
    with pytest.raises(ConfigurationError, match=r"links of \d+ nodes? are named twice; name each size once"):
        evaluate(busy_setting, protocol(), [LinkSize(1), LinkSize(1)], ["reactive"])


@pytest.fixture(scope="module")
def published(shared_data):
    """The published protocol on the published trace."""
    table = read_trace(shared_data / "mirage-ls6/ls6-a100.log.gz").table
    cluster = Cluster.pool(76)
    scenario = Scenario(cluster, workload(table, cluster), "mirage-2023")
    begin_s = 1_677_628_800  # 2023-03-01
    policies = ["reactive", "average", "lead:4", "lead:8", "lead:24", "oracle"]
    return evaluate(
        scenario,
        EvaluationProtocol.published(begin_s),
        [LinkSize(1), LinkSize(8)],
        policies,
        executor=LocalProcesses(2),
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("link_nodes", "policy", "interruption_h", "overlap_h", "zero_share"),
    [
        (1, "reactive", 2.56, 0.00, 0.53),
        (1, "lead:4", 1.21, 2.56, 0.72),
        (1, "lead:8", 0.50, 5.73, 0.88),
        (1, "lead:24", 0.00, 21.6, 1.00),
        (8, "reactive", 4.80, 0.00, 0.39),
        (8, "lead:4", 3.18, 1.55, 0.54),
        (8, "lead:8", 1.75, 3.56, 0.68),
        (8, "lead:24", 0.00, 18.3, 1.00),
    ],
)
def test_known_rows_of_the_published_protocol(published, link_nodes, policy, interruption_h, overlap_h, zero_share):
    row = by(published, policy=policy, link_nodes=link_nodes, load="all")
    assert row.interruption_h == pytest.approx(interruption_h, abs=0.006)
    assert row.overlap_h == pytest.approx(overlap_h, abs=0.06)
    assert row.zero_share == pytest.approx(zero_share, abs=0.006)


@pytest.mark.slow
def test_known_load_classes_of_the_published_protocol(published):
    windows = {(r.link_nodes, r.load): r.windows for r in published.rows if r.policy == "reactive"}
    assert [windows[1, load] for load in ("light", "medium", "heavy")] == [98, 53, 5]
    assert [windows[8, load] for load in ("light", "medium", "heavy")] == [74, 61, 21]


@pytest.mark.slow
def test_the_average_is_close_to_the_published_one(published):
    """The reference measured its mean a decision earlier, so that the second digit differs."""
    for nodes, interruption_h, overlap_h in ((1, 2.21, 0.82), (8, 4.26, 0.49)):
        row = by(published, policy="average", link_nodes=nodes, load="all")
        assert row.interruption_h == pytest.approx(interruption_h, abs=0.06)
        assert row.overlap_h == pytest.approx(overlap_h, abs=0.06)


def test_a_bound_with_a_parameter_is_refused_as_a_bound() -> None:
    with pytest.raises(ConfigurationError, match="the bound 'oracle' takes no parameter, got '1'"):
        _ = Candidate("oracle:1", Cost(1, 1)).spec
