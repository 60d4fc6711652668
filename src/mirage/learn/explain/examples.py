"""Examples of a policy: what it decided at every decision of a data set.

Every decision counts the same, also those behind the policy's submission: a tree that submits later comes to them.
Weighed by what the other answer would cost, the decisions near the moment to submit are next to nothing beside those
days ahead of it, and a tree has no leaves left to tell that moment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mirage.distill.examples import Choices
from mirage.errors import ConfigurationError
from mirage.job_state import Ints
from mirage.learn.explain.columns import Column, columns_in, rows_of
from mirage.learn.explain.tree_rule import ANSWERS
from mirage.learn.hand_overs import HandOvers
from mirage.learn.regression.model import Flags, choices, seen_in
from mirage.learn.training.rolling_origin import outside_share
from mirage.learn.training.trained import Trained
from mirage.policy.cost import Cost


@dataclass(frozen=True, slots=True, eq=False)
class Decided:
    """Decisions of a policy that have a choice.

    Attributes:
        where: Shape (n,), rows of the data set.
        columns: What people read of them.
        choices: The columns with the policy's answer.
    """

    where: Ints
    columns: tuple[Column, ...]
    choices: Choices


def covers(trained: Trained, data: HandOvers) -> bool:
    """Whether a model decides about every size of link in a data set, so that its decisions can be read off."""
    parts = [trained.parts.get(nodes) for nodes in np.unique(data.link_nodes).tolist()]
    return all(part is not None and part.model is not None for part in parts)


def model_submits(trained: Trained, data: HandOvers, cost: Cost) -> Flags:
    """Shape (n,): where a model that ``covers`` the data submits."""
    found = np.zeros(len(data), dtype=np.bool_)
    for nodes in map(int, np.unique(data.link_nodes)):
        rows = np.flatnonzero(data.link_nodes == nodes)
        model = trained.parts[nodes].model
        assert model is not None
        found[rows] = model.submits(seen_in(data, rows), cost)
    return found


def outside(trained: Trained, data: HandOvers) -> float:
    """Share of decisions unlike any in training: there the policy does as ``what-if``, which is not read off."""
    shares = [
        (outside_share(part, data[data.link_nodes == nodes]), int((data.link_nodes == nodes).sum()))
        for nodes, part in trained.parts.items()
    ]
    return sum(share * rows for share, rows in shares) / max(sum(rows for _, rows in shares), 1)


def played_submits(data: HandOvers, said: Mapping[int, Mapping[int, Mapping[int, bool]]]) -> Flags:
    """Shape (n,): where a policy that was played submits.

    Args:
        said: Nodes of a link → when the present link was submitted → when the policy was asked → whether it submits.

    Raises:
        ConfigurationError: A decision of the data was not played: the world was another.
    """
    found = np.ones(len(data), dtype=np.bool_)
    keys = zip(data.link_nodes.tolist(), data.window_s.tolist(), data.time_s.tolist(), data.remaining_s.tolist())
    for row, (nodes, window_s, time_s, remaining_s) in enumerate(keys):
        if remaining_s > 0:
            answer = said.get(nodes, {}).get(window_s, {}).get(time_s)
            if answer is None:
                raise ConfigurationError(
                    "a window was played otherwise than in the data: give the same trace, machine, discipline and step "
                    "as those were made with"
                )
            found[row] = answer
    return found


def examples_of(data: HandOvers, submits: Flags) -> Decided:
    """Examples of what a policy decided.

    Args:
        data: By window and time.
        submits: Shape (n,), what it decided.

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
        raise ConfigurationError("no decision of the data set has a choice and all that is to be read of it")
    features = tuple(column.feature for column in columns)
    labels = np.array(ANSWERS)[submits[where].astype(np.int64)].tolist()
    return Decided(where, columns, Choices.of_labels(features, rows, ANSWERS, labels))
