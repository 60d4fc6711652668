"""Our own network in PyTorch, over records of decisions, and checkpoints of its training.

It is equal to the compiled pass. A checkpoint holds network, Adam's state and progress, in one file with JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from mirage.dag.decima.networks.graph_network import CAPS, JOB_FEATURES, SHAPES, WIDTH
from mirage.dag.decima.networks.layers import Perceptrons, perceptrons
from mirage.dag.decima.training.rollouts import DECISIONS, EDGES, PLACES, ROWS, Record
from mirage.errors import ModelFileError
from mirage.predict.model_file import ModelCard, TrainedOn, read_model_file, write_model_file
from mirage.study.work_journal import check_plan

_COUNTS = (2, 2, 2, 2, 2, 3, 3)
"""Layers of each perceptron, in the order of ``SHAPES``."""

_KIND, _SCHEMA = "dag-training", 1


@dataclass(frozen=True, slots=True)
class DecisionBatch:
    """Decisions as tensors; `Record` describes the fields."""

    features: torch.Tensor
    height: torch.Tensor
    job_of_row: torch.Tensor
    offered: torch.Tensor
    decision_of_job: torch.Tensor
    first_row: torch.Tensor
    parent: torch.Tensor
    child: torch.Tensor
    picked: torch.Tensor
    added: torch.Tensor
    meant: torch.Tensor

    @classmethod
    def of(cls, record: Record, first: int, last: int) -> DecisionBatch:
        """The decisions from ``first`` up to but without ``last``."""
        size = record.size
        jobs = slice(*np.searchsorted(record.decision_of_job[: size[PLACES]], [first, last]))
        ends = np.append(record.first_row[: size[PLACES]], size[ROWS])
        begin, end = int(ends[jobs.start]), int(ends[jobs.stop])
        links = slice(*np.searchsorted(record.parent[: size[EDGES]], [begin, end]))

        def ints(values: NDArray[np.int64], less: int = 0) -> torch.Tensor:
            return torch.from_numpy(values - less)

        return cls(
            features=torch.from_numpy(record.features[begin:end].copy()),
            height=ints(record.height[begin:end]),
            job_of_row=ints(record.job_of_row[begin:end], jobs.start),
            offered=torch.from_numpy(record.offered[begin:end] > 0),
            decision_of_job=ints(record.decision_of_job[jobs], first),
            first_row=ints(record.first_row[jobs], begin),
            parent=ints(record.parent[links], begin),
            child=ints(record.child[links], begin),
            picked=ints(record.picked[first:last], begin),
            added=torch.from_numpy(record.added[first:last].copy()),
            meant=torch.from_numpy(record.meant[first:last].copy()),
        )


def batches(record: Record, size: int) -> list[DecisionBatch]:
    """Splits all decisions of a record into batches of about a size."""
    count = int(record.size[DECISIONS])
    edges = np.linspace(0, count, max(1, round(count / size)) + 1).astype(int)
    return [DecisionBatch.of(record, int(a), int(b)) for a, b in pairwise(edges)]


class GraphNetwork(nn.Module):
    """The PyTorch form of `mirage.dag.decima.networks.graph_network`."""

    def __init__(self) -> None:
        super().__init__()
        shapes = iter(SHAPES)
        self.parts = nn.ModuleList(_part([next(shapes) for _ in range(count)], count == 2) for count in _COUNTS)

    def forward(self, batch: DecisionBatch) -> tuple[torch.Tensor, torch.Tensor]:
        """The log probability of each decision, and its entropy."""
        prepare, message, aggregate, of_job, of_all, pick, cap = self.parts
        embedded = prepare(batch.features)
        for height in range(1, int(batch.height.max()) + 1 if len(batch.height) else 0):
            links = batch.height[batch.parent] == height
            rows, place = batch.parent[links].unique(return_inverse=True)
            received = torch.zeros(len(rows), WIDTH).index_add(0, place, message(embedded[batch.child[links]]))
            embedded = embedded.index_add(0, rows, aggregate(received))
        decisions, jobs = len(batch.picked), len(batch.first_row)
        each = of_job(torch.cat([batch.features, embedded], 1))
        job = torch.zeros(jobs, WIDTH).index_add(0, batch.job_of_row, each)
        everything = torch.zeros(decisions, WIDTH).index_add(0, batch.decision_of_job, of_all(job))
        rows = batch.offered.nonzero()[:, 0]
        jobs_of = batch.job_of_row[rows]
        decision_of = batch.decision_of_job[jobs_of]
        shown = [batch.features[rows], embedded[rows], job[jobs_of], everything[decision_of]]
        scores = pick(torch.cat(shown, 1))[:, 0]
        highest = torch.full((decisions,), -torch.inf).scatter_reduce(0, decision_of, scores.detach(), "amax")
        scores = scores - highest[decision_of]
        total = torch.zeros(decisions).index_add(0, decision_of, scores.exp())
        logs = scores - total.log()[decision_of]
        entropy = torch.zeros(decisions).index_add(0, decision_of, -logs.exp() * logs)
        of_row = torch.zeros(len(batch.features)).index_copy(0, rows, logs)
        picked_job = batch.job_of_row[batch.picked]
        first = batch.first_row[picked_job]
        job_input = torch.cat([batch.features[first, :JOB_FEATURES], job[picked_job], everything], 1)
        numbers = torch.stack([torch.from_numpy(CAPS).expand(decisions, -1), batch.added], 2)
        caps = cap(torch.cat([job_input[:, None].expand(-1, len(CAPS), -1), numbers], 2))[:, :, 0].log_softmax(1)
        entropy = entropy - (caps.exp() * caps).sum(1)
        meant = caps.masked_fill(batch.meant == 0, -torch.inf).logsumexp(1)
        return of_row[batch.picked] + meant, entropy

    def layers(self) -> Perceptrons:
        """The parameters in the form of the compiled forward pass."""
        linear = [layer for layer in self.modules() if isinstance(layer, nn.Linear)]
        return perceptrons([(layer.weight.detach().numpy().T, layer.bias.detach().numpy()) for layer in linear])


def _part(shapes: list[tuple[int, int]], active: bool) -> nn.Sequential:
    """Dense layers with leaky ReLU between them, and after the last one if ``active``."""
    steps: list[nn.Module] = []
    for inputs, outputs in shapes:
        steps += [nn.Linear(inputs, outputs), nn.LeakyReLU(0.2)]
    return nn.Sequential(*(steps if active else steps[:-1]))


def save_checkpoint(
    path: Path, network: torch.nn.Module, optimizer: torch.optim.Optimizer, settings: Mapping[str, Any]
) -> None:
    """Writes a checkpoint in one step.

    Args:
        path: The file.
        network: Its parameters are stored.
        optimizer: Its state is stored.
        settings: Everything else, JSON values, the plan among it.
    """
    arrays = {f"network.{name}": values.numpy() for name, values in network.state_dict().items()}
    for place, remembered in optimizer.state_dict()["state"].items():
        arrays |= {f"optimizer.{place}.{name}": values.numpy() for name, values in remembered.items()}
    write_model_file(path, ModelCard(_KIND, _SCHEMA, (), TrainedOn("", 0, 0, 0), settings=settings), arrays)


def load_checkpoint(
    path: Path, network: torch.nn.Module, optimizer: torch.optim.Optimizer, plan: Mapping[str, Any]
) -> Mapping[str, Any] | None:
    """Restores a checkpoint; returns its settings, or None where there is no file.

    Raises:
        ConfigurationError: It belongs to a training with another plan; the message lists the differences.
        ModelFileError: It is not a checkpoint.
    """
    if not path.exists():
        return None
    held = read_model_file(path, _KIND, _SCHEMA)
    check_plan(path, held.card.settings.get("plan"), plan)
    state: dict[int, dict[str, torch.Tensor]] = {}
    weights: dict[str, torch.Tensor] = {}
    for name, values in held.arrays.items():
        part, _, rest = name.partition(".")
        if part == "network":
            weights[rest] = torch.from_numpy(values.copy())
        else:
            place, _, what = rest.partition(".")
            state.setdefault(int(place), {})[what] = torch.from_numpy(values.copy())
    try:
        network.load_state_dict(weights)
        optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
    except (KeyError, RuntimeError, ValueError) as error:
        raise ModelFileError(f"{path} does not fit the network of this version ({error}); remove it") from error
    return held.card.settings
