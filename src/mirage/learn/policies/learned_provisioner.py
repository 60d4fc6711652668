"""A learned provisioner: decides by its model, and detects views outside its training.

A view unlike anything in training is decided as ``what-if`` does, and the plan gives the reason: the feature, its
value, the nearest value in training, and the nearest that would have been accepted. The same holds for a cluster with
users that repeat their requests more or less than those of the training, and for a link size that was not trained for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from mirage.duration import HOUR_S
from mirage.forecast.shared_futures import SharedFutures
from mirage.learn.features.forecast_features import forecast_at
from mirage.learn.features.hand_over_features import features_of
from mirage.learn.features.queue_history import queue_history
from mirage.learn.features.repeats import repeats_of
from mirage.learn.hand_overs import COLUMNS, HISTORY, QUEUE_COLUMNS, Floats32, chain_columns
from mirage.learn.ranges import Outside
from mirage.learn.regression.model_contract import DecisionInputs
from mirage.learn.training.trained_policy import LinkSizeModel, TrainedPolicy
from mirage.policy.cost import Cost
from mirage.policy.plan import Plan, Submit, Wait
from mirage.policy.start_forecast import StartForecast
from mirage.policy.view import ChainView, View
from mirage.provision.link_size import LinkSize
from mirage.provision.policies.lead_rules import chain_of, plan_without_choice
from mirage.provision.policies.what_if import WhatIf


class LearnedProvisioner:
    """Submits when its model does.

    Args:
        trained: The models by link size.
        cost: Cost of an hour of interruption and of an hour of overlap.
        what_if: Decides outside the training.
        futures: The futures of the queue, shared by all chains; None where no model reads a forecast.

    Attributes:
        forecasts: Whether futures of the queue are used for every link size, by its model or, where it has none, by
            ``what-if``. Models of 2023 read snapshots only, as do those of data without forecasts.
    """

    def __init__(self, trained: TrainedPolicy, cost: Cost, what_if: WhatIf, futures: SharedFutures | None) -> None:
        self.trained, self.cost, self.what_if, self.futures = trained, cost, what_if, futures
        models = [part.model for part in trained.parts.values() if part.model is not None]
        self.forecasts = not models or (futures is not None and all(model.inputs for model in models))

    def decide(self, view: View) -> Plan:
        """Returns the plan of the model for the chain's link size."""
        chain = chain_of(view)
        plan = plan_without_choice(view, chain)
        return self.weighed_at(view, chain, self.cost) if plan is None else plan

    def weighed_at(self, view: View, chain: ChainView, cost: Cost) -> Plan:
        """The plan at a cost: submit now or wait; release or hold a link already queued."""
        part = self.trained.parts.get(chain.nodes)
        if part is None:
            return self._as_what_if(view, chain, cost, self._of_another_size(chain.nodes))
        if part.model is None:
            return self.what_if.weighed_at(view, chain, cost)
        if part.repeats is not None:
            elsewhere = part.repeats.outside(repeats_of(view))
            if elsewhere is not None:
                return self._as_what_if(view, chain, cost, elsewhere)
        decision, forecast = self._decision(view, chain, part)
        if part.ranges is not None:
            outside = part.ranges.outside(decision.columns(part.ranges.names)[0])
            if outside is not None:
                return self._as_what_if(view, chain, cost, outside)
        estimate = {name: float(values[0]) for name, values in part.model.estimates(decision).items()}
        estimate["remaining_s"] = float(chain.ends_s - view.now_s)
        if part.model.submits(decision, cost)[0]:
            return Plan((Submit(reason=f"waiting-costs-more:model={part.method}"),), estimate, forecast)
        until_s = min(view.now_s + chain.step_s, chain.ends_s)
        return Plan((Wait(reason=f"waiting-costs-less:model={part.method}", until_s=until_s),), estimate, forecast)

    def always_outside(self, link: LinkSize, cluster_nodes: int | None) -> Outside | None:
        """What makes every decision about a link unlike the training; None if only views can.

        That is a size of link without a model, or a time limit or a cluster outside the ranges of the training. All its
        decisions are then those of ``what-if``.

        Args:
            link: The links to decide about.
            cluster_nodes: Nodes of the cluster; None if their number changes.
        """
        part = self.trained.parts.get(link.nodes)
        if part is None:
            return self._of_another_size(link.nodes)
        if part.model is None or part.ranges is None:
            return None
        known = {"link_limit_h": link.limit_s / HOUR_S}
        if cluster_nodes is not None:
            known["total_nodes"] = float(cluster_nodes)
        fixed = part.ranges.of_features(tuple(known))
        return fixed.outside(np.array([known[name] for name in fixed.names], dtype=np.float32))

    def _of_another_size(self, nodes: int) -> Outside:
        """The size of a link for which there is no model, and the nearest that has one."""
        return Outside("link_nodes", nodes, min(self.trained.parts, key=lambda known: abs(known - nodes)))

    def _decision(
        self, view: View, chain: ChainView, part: LinkSizeModel
    ) -> tuple[DecisionInputs, StartForecast | None]:
        """The inputs of the model, and the forecast among them."""
        assert part.model is not None
        forecast: StartForecast | None = None
        values, names = np.zeros(0, dtype=np.float32), tuple[str, ...]()
        others = _without_queued(view, chain)
        if part.model.inputs:
            forecast = None if self.futures is None else forecast_at(self.futures, view, chain)
            values, names = features_of(others, forecast)
        times = (chain.ends_s - view.now_s, chain.nodes, chain.limit_s, chain.started_s - chain.submitted_s)
        remaining_s, nodes, limit_s, wait_s = np.array(times, dtype=np.int64)[:, None]
        history = _history(others, chain)
        return DecisionInputs(
            values[None, :], names, remaining_s, chain.step_s, nodes, limit_s, wait_s, history
        ), forecast

    def _as_what_if(self, view: View, chain: ChainView, cost: Cost, outside: Outside) -> Plan:
        """The plan of ``what-if``, with the reason for using it."""
        plan = self.what_if.weighed_at(view, chain, cost)
        prefix = f"outside-training:{outside.words},what-if="
        actions = tuple(replace(action, reason=prefix + action.reason.partition(":")[0]) for action in plan.actions)
        return replace(plan, actions=actions)


def _without_queued(view: View, chain: ChainView) -> View:
    """The view without the chain's own queued link, as in training.

    A link that competes does not wait for itself.
    """
    if chain.queued is None:
        return view
    return replace(view, pending=view.pending[view.pending.id != chain.queued.job])


def _history(view: View, chain: ChainView) -> Callable[[], Floats32]:
    """Makes the 24 hours before now, shape (1, ``HISTORY``, ``COLUMNS``), as in data sets."""

    def make() -> Floats32:
        found = np.zeros((1, HISTORY, COLUMNS), dtype=np.float32)
        found[0, :, :QUEUE_COLUMNS] = queue_history(view)
        waited_s, elapsed_s = chain.started_s - chain.submitted_s, view.now_s - chain.started_s
        nodes, limit_s, wait_s, ran_s = np.array([chain.nodes, chain.limit_s, waited_s, elapsed_s])[:, None]
        found[:, :, QUEUE_COLUMNS:] = chain_columns(nodes, limit_s, wait_s, ran_s)
        return found

    return make
