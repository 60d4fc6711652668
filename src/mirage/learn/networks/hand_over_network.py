"""A network: a body that reads 24 hours, and heads for distribution, Q-values and policy.

The distribution is that of the outcome. One network serves all costs. The cost of a hand-over is what an hour of
interruption costs as a share of both hours, ``share`` = c_int / (c_int + c_ovl). It is an input of the heads; body and
distribution do not depend on it.

Q-values and policy start from the distribution: the Q-value of submitting from minus its expected cost, the policy from
the rule to submit when P(interruption) ≥ c_ovl / (c_int + c_ovl). Training learns what to add.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from mirage.learn.networks.network_inputs import ScaledInputs

LEVELS = tuple((k + 0.5) / 16 for k in range(16))
"""Levels of the quantiles of the outcome head."""

COST_UNIT_H = 2.0
"""Unit of Q-values and values, in hours."""

WAITS, SUBMITS = 0, 1
"""Columns of Q-values, and actions."""

_SOFT_H = 0.1
_SHARPNESS = 4.0
_SHORT, _LONGEST_LOG_H = 3.0, 7.0  # the first quantiles, and the upper bound of all: 45 days


class InputBatch(NamedTuple):
    """The tensors of a batch of scaled inputs."""

    history: Tensor
    features: Tensor
    remaining_h: Tensor

    @classmethod
    def of(cls, inputs: ScaledInputs) -> InputBatch:
        """Converts arrays to tensors."""
        return cls(*(torch.from_numpy(values) for values in inputs))


class BodyOutput(NamedTuple):
    """Output of a body: ``embedding`` (n, width), and ``penalty`` for the loss (0 for none)."""

    embedding: Tensor
    penalty: Tensor


class Body(Protocol):
    """A module that reads histories and features; ``width`` is the width of its embedding."""

    width: int

    def __call__(self, batch: InputBatch) -> BodyOutput:
        """The embedding of each row."""
        ...


class NetworkOutput(NamedTuple):
    """Output of a network for a batch at a cost.

    Attributes:
        outcome_h: Shape (n, levels): quantiles of the outcome if submitted now, ascending.
        q: Shape (n, 2): minus the expected cost of waiting and of submitting, in ``COST_UNIT_H``.
        logit: Shape (n,): logit of submitting.
        value: Shape (n,): minus the expected cost under the policy, in ``COST_UNIT_H``.
        penalty: Penalty of the body.
    """

    outcome_h: Tensor
    q: Tensor
    logit: Tensor
    value: Tensor
    penalty: Tensor


class Network(nn.Module):
    """A body and its heads."""

    def __init__(self, body: Body, hidden: int = 64) -> None:
        super().__init__()
        self.body = body
        self.waits = nn.Linear(body.width, len(LEVELS))
        width = body.width + len(LEVELS) + 3
        self.q_head = _head(width, hidden, 2)
        self.policy_head = _head(width, hidden, 1)
        self.value_head = _head(width, hidden, 1)

    def outcome(self, batch: InputBatch) -> tuple[Tensor, BodyOutput]:
        """Quantiles of the outcome in hours, shape (n, levels), and the output of the body.

        A link waits at least 0. So the network learns the logarithm of the wait; its quantiles are in order by
        construction.
        """
        body_output = self.body(batch)
        logs = functional.softplus(self.waits(body_output.embedding) - _SHORT).cumsum(dim=1).clamp(max=_LONGEST_LOG_H)
        return torch.expm1(logs) - batch.remaining_h[:, None], body_output

    def forward(self, batch: InputBatch, share: Tensor) -> NetworkOutput:
        """The outputs of all heads, with one cost a row."""
        return self.at_cost(batch, *self.outcome(batch), share)

    def at_cost(self, batch: InputBatch, outcome_h: Tensor, body_output: BodyOutput, share: Tensor) -> NetworkOutput:
        """The outputs of all heads from outcome and body output, with one cost a row."""
        fixed = outcome_h.detach()
        expected = expected_cost_h(fixed, share) / COST_UNIT_H
        late = torch.sigmoid(fixed / _SOFT_H).mean(dim=1)
        head_input = torch.cat(
            [
                body_output.embedding,
                torch.asinh(fixed),
                torch.logit(share, eps=1e-3)[:, None] / 2,
                torch.log1p(batch.remaining_h)[:, None],
                expected[:, None],
            ],
            dim=1,
        )
        q = self.q_head(head_input) - torch.stack([torch.zeros_like(expected), expected], dim=1)
        logit = self.policy_head(head_input)[:, 0] + _SHARPNESS * (late - (1 - share))
        return NetworkOutput(outcome_h, q, logit, self.value_head(head_input)[:, 0], body_output.penalty)


def cost_h(outcome_h: Tensor, share: Tensor) -> Tensor:
    """Cost of outcomes in hours, scaled so that at a share of 0.5 an hour of either costs 1."""
    return 2 * (share * outcome_h.clamp(min=0) + (1 - share) * (-outcome_h).clamp(min=0))


def expected_cost_h(outcome_h: Tensor, share: Tensor) -> Tensor:
    """Shape (n,): mean cost over the quantiles of each row."""
    return cost_h(outcome_h, share[:, None]).mean(dim=1)


def pinball_loss(outcome_h: Tensor, happened_h: Tensor, remaining_h: Tensor) -> Tensor:
    """Mean pinball loss of the wait's logarithm, over rows and levels.

    A logarithm leaves quantiles in place, and one long wait does not outweigh a hundred short ones.
    """
    predicted = torch.log1p((outcome_h + remaining_h[:, None]).clamp(min=0))
    missed = torch.log1p((happened_h + remaining_h).clamp(min=0))[:, None] - predicted
    levels = torch.tensor(LEVELS, dtype=predicted.dtype)
    return torch.maximum(levels * missed, (levels - 1) * missed).mean()


def _head(width: int, hidden: int, outputs: int) -> nn.Sequential:
    """Two layers; the last one starts at zero."""
    last = nn.Linear(hidden, outputs)
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    return nn.Sequential(nn.Linear(width, hidden), nn.GELU(), last)
