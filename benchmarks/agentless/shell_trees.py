"""Compares thresholds and trees for chains without an agent.

    python benchmarks/agentless/shell_trees.py ls6-a100.log.gz --nodes 76 --link-nodes 1,8 --start 2022-12-01 \
        --windows 30 --every 48

Each line is a rule, with the share of the gap between ``reactive`` and ``what-if`` that it closes, for each size of
link. ``use x F``: submit when no more remains than ``slurm_wait`` times F times the use of limits. ``N leaves``: a tree
of all features, fitted to the decisions of ``what-if`` in the first two thirds of the windows; its figures are those of
the last third.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mirage.agentless.shell_features import FEATURES, NAMES, measured_state, use_of
from mirage.agentless.shell_tree import ANSWERS, MOST_LEAVES
from mirage.distill.pruning import FitSettings
from mirage.distill.tree_examples import Choices
from mirage.distill.tree_fit import fitted
from mirage.duration import parse_duration_s
from mirage.policy.cost import Cost
from mirage.policy.view import View
from mirage.provision.evaluation.candidate import WindowRun, candidates, window_seed
from mirage.provision.evaluation.episode import Scenario, play
from mirage.provision.evaluation.evaluation_protocol import EvaluationProtocol
from mirage.provision.evaluation.evaluation_study import Player, Study
from mirage.provision.link_size import LinkSize
from mirage.sim.cluster import Cluster
from mirage.sim.workload import workload
from mirage.trace.read_trace import read_trace

Rows = NDArray[np.float64]
Rule = Callable[[Rows], NDArray[np.bool_]]
FACTORS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.35, 1.5)


@dataclass(frozen=True, slots=True)
class Window:
    """Decisions of a window, their outcomes, and the choice of ``what-if``.

    Attributes:
        rows: Shape (k, features).
        outcome_s: Shape (k + 1,); the last is that of a submission at the end.
        chosen: Index of the decision at which ``what-if`` submits.
    """

    nodes: int
    rows: Rows
    outcome_s: NDArray[np.int64]
    chosen: int

    def cost_s(self, rule: Rule | None) -> int:
        """Hours apart, in seconds, if a rule decides; of ``what-if`` for None."""
        submits = [self.chosen] if rule is None else np.flatnonzero(rule(self.rows)).tolist()
        return abs(int(self.outcome_s[submits[0] if submits else -1]))


def windows_of(scenario: Scenario, protocol: EvaluationProtocol, links: tuple[LinkSize, ...]) -> Iterator[Window]:
    """Plays all windows, decision by decision."""
    candidate = candidates(["what-if"], [Cost()])[0]
    player = Player(Study(scenario, protocol, links, (candidate,), 0, False))
    for number in range(protocol.windows):
        for link, sim in player.worlds(number):
            seed = window_seed(0, link.nodes, protocol.submits_s(number))
            run, rows = WindowRun(candidate.make(scenario, seed)), {}

            def on_view(view: View, run: WindowRun = run, rows: dict[int, list[int]] = rows) -> int | None:
                chain = view.chain
                assert chain is not None
                use = use_of(view.ended, view.now_s)
                rows[view.now_s] = list(measured_state(view, chain, use).row().values())
                return run.on_view(view)

            episode = play(sim, protocol, link, number, on_view)
            times = episode.decisions_s.tolist()
            chosen = times.index(run.submitted_s) if run.submitted_s in times else len(times) - 1
            table = np.array([rows[time_s] for time_s in times[:-1]], dtype=np.float64).reshape(-1, len(NAMES))
            yield Window(link.nodes, table, episode.outcome_s, chosen)


def factor_rule(factor: float) -> Rule:
    """Submit when no more remains than a factor times the expected wait."""
    remaining, expected = NAMES.index("remaining"), NAMES.index("expected_wait")
    return lambda rows: rows[:, remaining] <= factor * rows[:, expected]


def tree_rule(windows: list[Window], leaves: int) -> Rule:
    """A tree that imitates ``what-if``."""
    rows = np.concatenate([window.rows for window in windows])
    labels = [ANSWERS[k >= window.chosen] for window in windows for k in range(len(window.rows))]
    held_out = np.arange(len(rows)) == len(rows) - 1
    settings = FitSettings(max_leaves=leaves, folds=0, least_share=0.0005, may_move=0.0005)
    examples = Choices.of_labels(FEATURES, rows, ANSWERS, labels)
    tree = fitted(examples, held_out, np.random.default_rng(0), settings).tree
    return lambda some: tree.codes(some) == 1


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace")
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--link-nodes", default="1")
    parser.add_argument("--link-limit", default="2-00:00:00")
    parser.add_argument("--start", required=True)
    parser.add_argument("--windows", type=int, default=30)
    parser.add_argument("--every", type=int, default=48, help="hours")
    given = parser.parse_args()
    cluster = Cluster.pool(given.nodes)
    jobs = workload(read_trace(given.trace).table, cluster, refuse=False)
    begin_s = int(np.datetime64(given.start, "s").astype(np.int64))
    protocol = EvaluationProtocol.warm(begin_s, windows=given.windows, every_s=given.every * 3_600)
    limit_s = parse_duration_s(given.link_limit)
    links = tuple(LinkSize(int(nodes), limit_s) for nodes in given.link_nodes.split(","))
    played = list(windows_of(Scenario(cluster, jobs), protocol, links))
    later = 2 * given.windows // 3 * len(links)

    def show(name: str, windows: list[Window], rule: Rule) -> None:
        shares = []
        for link in links:
            part = [window for window in windows if window.nodes == link.nodes]
            reactive = sum(abs(int(window.outcome_s[-1])) for window in part)
            best = sum(window.cost_s(None) for window in part)
            closed = (reactive - sum(window.cost_s(rule) for window in part)) / max(reactive - best, 1)
            shares.append(f"{link.nodes} nodes {100 * closed:4.0f} %")
        print(f"{name:12} {', '.join(shares)}")

    for factor in FACTORS:
        show(f"use x {factor:g}", played, factor_rule(factor))
    for leaves in (2, 4, 8, 16, MOST_LEAVES):
        show(f"{leaves} leaves", played[later:], tree_rule(played[:later], leaves))


if __name__ == "__main__":
    main()
