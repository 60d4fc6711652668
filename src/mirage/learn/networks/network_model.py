"""A trained network as a model: its decision rule, its file, and its answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from mirage.array_types import Floats
from mirage.duration import HOUR_S
from mirage.errors import ModelFileError, UnknownName
from mirage.learn.hand_overs import Floats32
from mirage.learn.networks.hand_over_network import (
    COST_UNIT_H,
    LEVELS,
    SUBMITS,
    WAITS,
    InputBatch,
    Network,
    NetworkOutput,
)
from mirage.learn.networks.mixture_of_experts import MixtureBody
from mirage.learn.networks.network_checkpoint import load_weights, weights_of_module
from mirage.learn.networks.network_inputs import InputScaling
from mirage.learn.networks.perceptron import PerceptronBody
from mirage.learn.networks.published_networks import (
    PublishedMixture,
    PublishedPolicy,
    PublishedTransformer,
    is_published,
    submits_by_regression,
    weights_of,
)
from mirage.learn.networks.training_loop import Curve, torch_threads
from mirage.learn.networks.transformer import TransformerBody
from mirage.learn.regression.model_contract import Arrays, DecisionInputs, Flags
from mirage.policy.cost import Cost

SHARES = (0.05, 0.95)
"""Costs that our networks learn at: an hour of interruption costs 1/19 to 19 hours of overlap."""

DQN, PPO, QUANTILES, REGRESSION, REINFORCE = "dqn", "ppo", "quantiles", "regression", "reinforce"
"""Decision rules of networks: Q-values, policy, quantiles of the outcome, and the two published ones."""

BODIES: Mapping[str, type[nn.Module]] = {
    "transformer": TransformerBody,
    "mixture": MixtureBody,
    "perceptron": PerceptronBody,
}
PUBLISHED: Mapping[str, type[nn.Module]] = {
    "transformer-2023": PublishedTransformer,
    "mixture-2023": PublishedMixture,
}

_AT_ONCE = 512
"""Decisions that a network reads at once."""


@dataclass(frozen=True, slots=True, eq=False)
class NetworkModel:
    """A trained network.

    Attributes:
        method: Name of the policy: ``transformer-dqn``.
        decides: Its decision rule.
        body: Name of the body.
        sizes: Arguments of the body, except the width of the features.
        network: The network with its weights.
        scaling: The scale of its inputs.
        longest_lead_s: The longest time to the end of a link at which it was trained.
        figures: Validation figures by name.
        curve: Learning curve; not stored in the file.
    """

    method: str
    decides: str
    body: str
    sizes: Mapping[str, Any]
    network: nn.Module
    scaling: InputScaling
    longest_lead_s: int
    figures: Mapping[str, float] = field(default_factory=dict)
    curve: Curve = ()

    def estimates(self, history: Floats32, features: Floats32, link: Floats32, share: float) -> dict[str, NDArray[Any]]:
        """The network's answers for n decisions, by name; ``submits`` is the decision itself.

        Each answer has shape (n,).

        Args:
            history: Shape (n, ``HISTORY``, ``COLUMNS``), as from ``HandOvers.history``.
            features: Shape (n, features), in the order of the scaling's names.
            link: Shape (n, 4): the values of ``inputs.OF_THE_LINK``.
            share: Cost of an hour of interruption, as a share of the cost of an hour of both. It is clipped to the
                costs of the training, 19 to 1 and 1 to 19.
        """
        with torch_threads(1), torch.inference_mode():
            if self.decides in (REGRESSION, REINFORCE):
                return self._published(self.network(torch.from_numpy(history)))
            at = torch.full((len(link),), float(np.clip(share, *SHARES)))
            output = self.network(InputBatch.of(self.scaling.of_rows(history, features, link)), at)
        waits_s = (output.outcome_h + torch.from_numpy(link[:, :1]) / HOUR_S).numpy() * HOUR_S
        estimates = {f"wait_p{level:02.0f}_s": _quantile(waits_s, level / 100) for level in (5, 50, 95)}
        if self.decides == DQN:
            estimates |= {"cost_now": -COST_UNIT_H * output.q[:, SUBMITS].numpy()}
            estimates |= {"cost_later": -COST_UNIT_H * output.q[:, WAITS].numpy()}
        elif self.decides == PPO:
            estimates |= {"submit_probability": torch.sigmoid(output.logit).numpy()}
        else:
            estimates |= {"interruption_probability": (output.outcome_h > 0).float().mean(dim=1).numpy()}
        return estimates | {"submits": decided(output, self.decides, at).numpy()}

    def _published(self, output: torch.Tensor) -> dict[str, NDArray[Any]]:
        if self.decides == REGRESSION:
            return {"outcome_h": output[:, 0].numpy(), "submits": submits_by_regression(output[:, 0]).numpy()}
        probability = torch.softmax(output, dim=1)[:, SUBMITS].numpy()
        return {"submit_probability": probability, "submits": probability >= 0.5}

    @property
    def weights(self) -> int:
        """Number of weights."""
        return weights_of(self.network)


def decided(output: NetworkOutput, decides: str, share: torch.Tensor) -> torch.Tensor:
    """Shape (n,): the decision of one of our networks at each row."""
    if decides == DQN:
        return output.q[:, SUBMITS] >= output.q[:, WAITS]
    if decides == PPO:
        return output.logit >= 0
    return (output.outcome_h > 0).float().mean(dim=1) >= 1 - share


def network_of(body: str, features: int, sizes: Mapping[str, Any]) -> Network:
    """Creates an untrained network of ours.

    Raises:
        UnknownName: The body does not exist.
    """
    if body not in BODIES:
        raise UnknownName("body of a network", body, BODIES)
    return Network(BODIES[body](features, **sizes))


def network_settings(model: NetworkModel) -> dict[str, Any]:
    """The settings of a model besides its arrays; JSON values."""
    return {
        "method": model.method,
        "decides": model.decides,
        "body": model.body,
        "sizes": dict(model.sizes),
        "longest_lead_s": model.longest_lead_s,
        "features": list(model.scaling.names),
        "weights": model.weights,
        "figures": dict(model.figures),
    }


def network_arrays(model: NetworkModel) -> Arrays:
    """The arrays of a model."""
    weights = {f"network.{name}": values for name, values in weights_of_module(model.network).items()}
    return weights | model.scaling.arrays()


def network_from(settings: Mapping[str, Any], arrays: Arrays) -> NetworkModel:
    """Restores a model from its settings and its arrays.

    Raises:
        ModelFileError: They do not match.
    """
    try:
        scaling = InputScaling.from_arrays(tuple(settings["features"]), arrays)
        network = _empty(settings, scaling)
        prefix = "network."
        load_weights(network, {key[len(prefix) :]: value for key, value in arrays.items() if key.startswith(prefix)})
    except (KeyError, TypeError, RuntimeError) as error:
        raise ModelFileError(
            f"the arrays of {settings.get('method')} do not match its card ({error}); train it again"
        ) from error
    network.eval()
    return NetworkModel(
        str(settings["method"]),
        str(settings["decides"]),
        str(settings["body"]),
        dict(settings["sizes"]),
        network,
        scaling,
        int(settings["longest_lead_s"]),
        dict(settings["figures"]),
    )


def _empty(settings: Mapping[str, Any], scaling: InputScaling) -> nn.Module:
    """A network of the shape on a card, with meaningless weights."""
    body = settings["body"]
    if body not in PUBLISHED:
        return network_of(body, scaling.width, settings["sizes"])
    frozen = PUBLISHED[body](**settings["sizes"])
    return PublishedPolicy(frozen) if settings["decides"] == REINFORCE else frozen


def _quantile(values: NDArray[np.float32], level: float) -> NDArray[np.float64]:
    """Shape (n,): a quantile interpolated between ``LEVELS``; clipped to the outermost ones."""
    position = np.clip(level * len(LEVELS) - 0.5, 0, len(LEVELS) - 1)
    below = int(position)
    above = min(below + 1, len(LEVELS) - 1)
    found: NDArray[np.float64] = values[:, below] + (position - below) * (values[:, above] - values[:, below])
    return found


class TrainedNetwork:
    """A network that implements ``mirage.learn.regression.model_contract.Model``.

    Args:
        network: The trained network.
    """

    def __init__(self, network: NetworkModel) -> None:
        self.network = network
        self.inputs: tuple[str, ...] = () if is_published(network.body) else network.scaling.names

    def submits(self, decisions: DecisionInputs, cost: Cost) -> Flags:
        """Where the network submits; never at a longer lead than it was trained for."""
        found: Flags = np.zeros(len(decisions), dtype=np.bool_)
        late = np.flatnonzero(decisions.remaining_s <= self.network.longest_lead_s)
        if len(late):
            share = cost.interruption / (cost.interruption + cost.overlap)
            found[late] = self._outputs(decisions, late, share)["submits"]
        return found

    def estimates(self, decisions: DecisionInputs) -> dict[str, Floats]:
        """Its answers at equal costs of interruption and overlap."""
        estimates = self._outputs(decisions, np.arange(len(decisions)), 0.5)
        return {name: np.asarray(values, dtype=np.float64) for name, values in estimates.items() if name != "submits"}

    def as_arrays(self) -> dict[str, NDArray[Any]]:
        """The network's arrays, as a model file stores them."""
        return dict(network_arrays(self.network))

    def settings(self) -> dict[str, Any]:
        """The network's settings; JSON values."""
        return network_settings(self.network)

    @classmethod
    def from_arrays(cls, arrays: Arrays, settings: Mapping[str, Any]) -> Self:
        """The network stored in a model file."""
        return cls(network_from(settings, arrays))

    def _outputs(self, decisions: DecisionInputs, rows: NDArray[np.int64], share: float) -> dict[str, NDArray[Any]]:
        """Its answers for some rows, in their order."""
        history = decisions.history()
        features = decisions.columns(self.inputs)
        link = np.stack(
            [decisions.remaining_s, decisions.link_nodes, decisions.link_limit_s, decisions.wait_s], axis=1
        ).astype(np.float32)
        parts = [
            self.network.estimates(history[some], features[some], link[some], share)
            for some in np.array_split(rows, -(-len(rows) // _AT_ONCE))
        ]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
