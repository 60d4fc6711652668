"""``shell-tree``: what a shell would measure in a view, and the files of its trees."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mirage.agentless.shell_features import LEAST_ENDED, mean_use, measured_state, slurm_wait_s
from mirage.agentless.shell_tree import MOST_LEAVES, default_tree
from mirage.distill.tree_reading import tree_of
from mirage.distill.tree_text import text_of
from mirage.errors import ConfigurationError
from mirage.job_state import MISSING
from mirage.policy.check_policy import check_policy
from mirage.policy.contract import Policy
from mirage.policy.example_views import example_views
from mirage.policy.plan import Hold, Release, Wait
from mirage.policy.policy_registry import make_policy
from mirage.policy.policy_settings import PolicySettings
from mirage.policy.view import Nodes, QueuedLink, View
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings


def settings(age_retained: bool) -> PolicySettings:
    """Settings of a cluster on which a held job retains its age, or loses it."""
    return PolicySettings(scheduler=SlurmSettings(age_survives_hold=age_retained))


def view_of_ten_nodes() -> View:
    """Ten nodes in use by jobs of 2, 3 and 5 nodes with 1, 4 and 6 h left; two jobs wait."""
    view = next(view for view in example_views() if view.chain is not None and view.chain.started_s >= 0)
    assert view.chain is not None
    hour, now_s = 3_600, view.now_s
    nodes = Nodes(True, np.array([[10, 0]]), np.array([[0, 0]]), np.ones((1, 1), dtype=np.bool_))
    three = np.arange(len(view.running)) < 3
    running = replace(
        view.running[three],
        id=np.array([100, 101, 102]), nodes=np.array([2, 3, 5]), width=np.array([2, 3, 5]),
        limit_s=np.array([2, 5, 8]) * hour, start_s=now_s - np.array([1, 1, 2]) * hour,
    )  # fmt: skip
    two = np.arange(len(view.pending)) < 2
    pending = replace(
        view.pending[two],
        nodes=np.array([4, 1]), limit_s=np.array([5, 10]) * hour, partition=np.zeros(2, dtype=np.int64),
    )  # fmt: skip
    chain = replace(view.chain, nodes=4, partition=0, started_s=now_s - 2 * hour, ends_s=now_s + 6 * hour)
    return replace(view, nodes=nodes, running=running, pending=pending, chain=chain)


def test_slurms_estimate_is_the_limits_of_running_jobs_plus_the_node_time_of_pending_ones() -> None:
    view = view_of_ten_nodes()
    assert view.chain is not None
    assert slurm_wait_s(view, view.chain) == 4 * 3600 + (4 * 5 + 1 * 10) * 3600 // 10  # 5 nodes are free in 4 h
    state = measured_state(view, view.chain, 500)
    assert (state.remaining, state.elapsed, state.pending_jobs, state.idle_nodes) == (6 * 3600, 2 * 3600, 2, 0)
    submitted_s = int(view.now_s) - np.array([500, 100])
    later = replace(view, pending=replace(view.pending, submit_s=submitted_s, id=np.array([7, 8])))
    queued = replace(view.chain, queued=QueuedLink(9, submitted_s[0] + 50, MISSING, 3600))
    assert slurm_wait_s(later, queued) == 6 * 3600  # the second job came after the link
    assert slurm_wait_s(later, replace(queued, queued=QueuedLink(7, submitted_s[1], MISSING, 3600))) == 5 * 3600
    other = replace(view, pending=replace(view.pending, partition=np.array([0, 1])))
    assert slurm_wait_s(other, view.chain) == 6 * 3600  # a job of another partition is not ahead


@pytest.mark.parametrize(
    ("use", "age_retained", "submits"),
    [(0.86, False, True), (0.84, False, False), (0.69, True, True), (0.68, True, False)],
)
def test_it_submits_by_the_used_part_of_the_wait_and_earlier_where_it_can_hold_again(
    use: float, age_retained: bool, submits: bool
) -> None:
    view = view_of_ten_nodes()  # 6 h remain, the wait is 7 h; the margin is 5 min, or a quarter
    plan = make_policy(f"shell-tree:{use}", settings(age_retained)).decide(view)
    assert plan.submits == submits
    assert plan.estimate == {"remaining_s": 21_600.0, "slurm_wait_s": 25_200.0, "use": use * 1000}
    assert "spare" in plan.actions[0].reason


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize(
    ("use", "age_retained", "wanted"),
    [
        (0.9, True, {False: [Wait], True: [Release, Wait]}),
        (0.1, True, {False: [Hold, Wait], True: [Wait]}),
        (0.1, False, {False: [Wait], True: [Wait]}),
    ],
)
def test_a_queued_link_is_held_again_while_the_tree_answers_wait(
    use: float, age_retained: bool, wanted: dict[bool, list[type]], held: bool
) -> None:
    view = view_of_ten_nodes()
    assert view.chain is not None
    queued = QueuedLink(9, view.now_s - 60, MISSING, 3600, held=held)
    policy = make_policy(f"shell-tree:{use}", settings(age_retained))
    plan = policy.decide(replace(view, chain=replace(view.chain, queued=queued)))
    assert [type(action) for action in plan.actions] == wanted[held]
    ended = policy.decide(replace(view, chain=replace(view.chain, queued=queued, ends_s=view.now_s)))
    assert [type(action) for action in ended.actions] == ([Release] if held else [])


def test_the_start_in_slurms_plan_counts_while_the_link_competes_and_is_known_when_it_is_held_again() -> None:
    view = view_of_ten_nodes()
    assert view.chain is not None
    competes = QueuedLink(9, view.now_s - 60, view.now_s - 60, 3600)
    held, other = replace(competes, held=True), replace(competes, job=10, held=True)

    def kinds(policy: Policy, queued: QueuedLink) -> list[type]:
        chain = replace(view.chain, queued=queued)
        return [type(action) for action in policy.decide(replace(view, chain=chain)).actions]

    def policy(window_s: int = 86_400) -> Policy:
        scheduler = SlurmSettings(age_survives_hold=True, bf_window_s=window_s)
        return make_policy("shell-tree:0.75", PolicySettings(scheduler=scheduler))  # 6 h remain

    assert kinds(policy(), held) == [Release, Wait]  # no plan is known: 7 h by --test-only, 5.25 h used
    planned = policy()
    assert [kinds(planned, queued) for queued in (competes, held)] == [[Hold, Wait], [Wait]]  # 6 h, 4.5 h used
    assert kinds(planned, other) == [Release, Wait]
    assert kinds(policy(5 * 3_600), competes) == [Wait]  # the plan does not reach so far


@pytest.mark.parametrize(("left_s", "until_s"), [(21_600, 300), (301, 300), (299, 299)])
def test_it_decides_in_every_pass_of_the_script(left_s: int, until_s: int, tmp_path: Path) -> None:
    view = view_of_ten_nodes()
    assert view.chain is not None
    path = tmp_path / "tree.txt"
    path.write_text(text_of(default_tree()).replace("spare < 5min", "spare < 1s"))
    at_end = replace(view, chain=replace(view.chain, ends_s=view.now_s + left_s))
    (wait,) = make_policy(f"shell-tree:use=0.001:tree={path}").decide(at_end).actions
    assert wait == Wait(reason=wait.reason, until_s=view.now_s + until_s)


def test_the_use_of_limits_is_the_part_of_requested_node_time() -> None:
    n = LEAST_ENDED
    run_s = np.concatenate([np.full(n, 100), np.full(n, 900), np.zeros(n, dtype=np.int64), [500]])
    limit_s = np.concatenate([np.full(n, 400), np.full(n, 600), np.full(n, 600), [0]])
    nodes = np.concatenate([np.full(n, 1), np.full(n, 2), np.full(n, 9), [9]])
    # (100 + 2 x 600) / (400 + 2 x 600): cut at the limit; jobs of no time or no limit do not count
    assert mean_use(run_s, limit_s, nodes) == round(1000 * 1300 / 1600)
    assert mean_use(run_s, limit_s, np.zeros_like(nodes)) == 700  # unknown nodes count as one
    assert mean_use(run_s[: n - 1], limit_s[: n - 1], nodes[: n - 1]) == 1000


def test_it_meets_the_contract_of_policies() -> None:
    check_policy(lambda: make_policy("shell-tree", PolicySettings()), revises_queued_link=True)


def test_a_tree_in_a_file_decides(tmp_path: Path) -> None:
    path = tmp_path / "tree.txt"
    path.write_text(text_of(default_tree()).replace("spare < 5min", "spare < 3h"))
    view = view_of_ten_nodes()
    assert make_policy(f"shell-tree:use=0.5:tree={path}").decide(view).submits
    assert not make_policy("shell-tree:use=0.5").decide(view).submits


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("cover: number", "cover: number\n    use: share"), "feature 'use' is a number, not a share"),
        (("cover", "wait_p80"), "feature of a shell"),
        (("wait, submit", "wait, submit, hold"), "write 'answers: wait, submit'"),
    ],
)
def test_a_tree_that_no_shell_can_run_is_refused(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    path = tmp_path / "tree.txt"
    path.write_text(text_of(default_tree()).replace(*change))
    with pytest.raises(ConfigurationError, match=message):
        make_policy(f"shell-tree:tree={path}")


def test_the_tree_of_the_docs_is_a_whole_file() -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "agentless.md").read_text()
    shown = page.split("```\ntree", 1)[1].split("```")[0]
    assert tree_of(f"tree{shown}", "agentless.md") == default_tree()


def test_a_tree_with_too_many_leaves_is_refused(tmp_path: Path) -> None:
    lines, indent = ["tree: 1", "features:", "    elapsed: duration", "answers: wait, submit", ""], ""
    for k in range(MOST_LEAVES):
        lines += [f"{indent}if elapsed < {k + 1}s:", f"{indent}    {('wait', 'submit')[k % 2]}", f"{indent}else:"]
        indent += "    "
    path = tmp_path / "tree.txt"
    path.write_text("\n".join([*lines, f"{indent}wait"]) + "\n")
    with pytest.raises(ConfigurationError, match="has 33 leaves; make one of at most 32"):
        make_policy(f"shell-tree:tree={path}")
