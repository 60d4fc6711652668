"""Examples of a policy: its answer at every decision of a data set.

All decisions have equal weight, also those after the policy's submission: a tree that submits later reaches them. With
weights by the cost of the other answer, decisions near the moment to submit would count almost nothing against those
days before it, and a tree would have no leaves left to find that moment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mirage.array_types import Ints
from mirage.distill.tree_examples import Choices
from mirage.errors import ConfigurationError
from mirage.learn.explain.readable_columns import Column, columns_in, rows_of
from mirage.learn.explain.tree_rule import ANSWERS
from mirage.learn.hand_overs import HandOvers
from mirage.learn.regression.model_contract import Flags, choices, inputs_at
from mirage.learn.training.method_trials import outside_share
from mirage.learn.training.trained_policy import TrainedPolicy
from mirage.policy.cost import Cost


@dataclass(frozen=True, slots=True, eq=False)
class PolicyExamples:
    """Decisions of a policy that have a choice.

    Attributes:
        where: Shape (n,), rows of the data set.
        columns: Their readable columns.
        choices: The columns with the policy's answer.
    """

    where: Ints
    columns: tuple[Column, ...]
    choices: Choices


def covers(trained: TrainedPolicy, data: HandOvers) -> bool:
    """Whether a model decides for every link size in the data, so that it can be read off."""
    parts = [trained.parts.get(nodes) for nodes in np.unique(data.link_nodes).tolist()]
    return all(part is not None and part.model is not None for part in parts)


def model_submits(trained: TrainedPolicy, data: HandOvers, cost: Cost) -> Flags:
    """Shape (n,): where a model that ``covers`` the data submits."""
    found = np.zeros(len(data), dtype=np.bool_)
    for nodes in map(int, np.unique(data.link_nodes)):
        rows = np.flatnonzero(data.link_nodes == nodes)
        model = trained.parts[nodes].model
        assert model is not None
        found[rows] = model.submits(inputs_at(data, rows), cost)
    return found


def outside(trained: TrainedPolicy, data: HandOvers) -> float:
    """Share of decisions unlike the training data, where the policy acts as ``what-if``.

    Those decisions are not read off the model.
    """
    shares = [
        (outside_share(part, data[data.link_nodes == nodes]), int((data.link_nodes == nodes).sum()))
        for nodes, part in trained.parts.items()
    ]
    return sum(share * rows for share, rows in shares) / max(sum(rows for _, rows in shares), 1)


def played_submits(data: HandOvers, answers: Mapping[int, Mapping[int, Mapping[int, bool]]]) -> Flags:
    """Shape (n,): where a policy that was played submits.

    Args:
        answers: Nodes of a link → submission of the present link → time of the decision → whether the policy submits.

    Raises:
        ConfigurationError: A decision of the data was not played: the worlds differ.
    """
    found = np.ones(len(data), dtype=np.bool_)
    keys = zip(data.link_nodes.tolist(), data.window_s.tolist(), data.time_s.tolist(), data.remaining_s.tolist())
    for row, (nodes, window_s, time_s, remaining_s) in enumerate(keys):
        if remaining_s > 0:
            answer = answers.get(nodes, {}).get(window_s, {}).get(time_s)
            if answer is None:
                raise ConfigurationError(
                    "a window was played differently from the data: give the trace, machine, discipline and step that "
                    "the data were made with"
                )
            found[row] = answer
    return found


def examples_of(data: HandOvers, submits: Flags) -> PolicyExamples:
    """Examples of a policy's decisions.

    Args:
        data: Ordered by window and time.
        submits: Shape (n,), whether the policy submits.

    Raises:
        ConfigurationError: The data have labels only, or no decision with a choice.
    """
    if not data.names:
        raise ConfigurationError("the data set has labels only; make it again without --labels-only")
    columns = columns_in(data.names)
    where = choices(data)
    rows = rows_of(columns, data.features[where], data.names, data.remaining_s[where])
    known = np.isfinite(rows).all(axis=1)
    where, rows = where[known], rows[known]
    if not len(where):
        raise ConfigurationError("no decision of the data set has both a choice and known values in all columns")
    features = tuple(column.feature for column in columns)
    labels = np.array(ANSWERS)[submits[where].astype(np.int64)].tolist()
    return PolicyExamples(where, columns, Choices.of_labels(features, rows, ANSWERS, labels))
