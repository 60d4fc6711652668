"""Plan of a comparison: its methods, policies, months, seeds and costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mirage.errors import ConfigurationError
from mirage.learn.training.folds import month_begin_s
from mirage.learn.training.methods import METHODS, method_named
from mirage.policy.cost import Cost
from mirage.policy.policy_registry import make_policy, policy_named_by, with_policy_named
from mirage.provision.evaluation.candidate import BOUNDS, HINDSIGHT, Candidate
from mirage.provision.evaluation.oracle import REACTIVE

PUBLISHED, OURS, BASELINE, BOUND = "published", "ours", "baseline", "bound"
KINDS = (PUBLISHED, OURS, BASELINE, BOUND)

PUBLISHED_RULES = (REACTIVE, "average")
"""The two published methods, out of eight, that learn nothing (Mirage, SC'23)."""

_AS_PUBLISHED = "-2023"
_OURS = ("what-if", "holds")


def kind_of(policy: str) -> str:
    """Kind of a policy: ``published`` (Mirage, SC'23), ``ours``, ``baseline`` or ``bound``."""
    if policy in BOUNDS:
        return BOUND
    if policy in PUBLISHED_RULES or (policy in METHODS and policy.endswith(_AS_PUBLISHED)):
        return PUBLISHED
    return OURS if policy in METHODS or policy.partition(":")[0] in _OURS else BASELINE


def method_within(policy: str) -> str | None:
    """The method inside another policy: ``correction`` of ``holds:by=correction``, or None."""
    inner = policy_named_by(policy)
    return inner if inner in METHODS else None


@dataclass(frozen=True, slots=True)
class ComparisonPlan:
    """The methods, policies, months, costs and seeds of a comparison.

    Attributes:
        methods: Methods of learning, by name.
        policies: The other policies, bounds included. ``holds:by=correction`` uses the models of that method.
        months: Test months, ``2023-03``.
        costs: Costs of hours of interruption and overlap.
        seeds: Everything random is played with each seed, and every method trained with each.

    Raises:
        UnknownName: A method or policy does not exist.
        ConfigurationError: There is nothing to compare, or a name, month or seed appears twice.
    """

    methods: tuple[str, ...]
    policies: tuple[str, ...]
    months: tuple[str, ...]
    costs: tuple[Cost, ...] = (Cost(),)
    seeds: tuple[int, ...] = (0, 1, 2)

    def __post_init__(self) -> None:
        for method in self.methods:
            method_named(method)
        for policy in self.policies:
            if policy not in HINDSIGHT:
                _ = Candidate(policy).spec
            self._check_named(policy)
        for month in self.months:
            month_begin_s(month)
        for values, what in ((self.names, "method or policy"), (self.months, "month"), (self.seeds, "seed")):
            if not values or len(set(values)) < len(values):
                raise ConfigurationError(f"a comparison needs every {what} once, got {values or 'none'}")

    def _check_named(self, policy: str) -> None:
        """Checks that the policy named by another policy's parameter fits, before training."""
        inner = policy_named_by(policy)
        if inner is None:
            return
        if inner not in METHODS:
            make_policy(policy)
            return
        if inner not in self.methods:
            raise ConfigurationError(f"{policy} uses models of {inner}; name that among the methods, too")
        if not METHODS[inner].forecast:
            raise ConfigurationError(
                f"{policy}: models of {inner} read no forecast, so they cannot decide about held links"
            )
        make_policy(with_policy_named(policy, "what-if"))

    @property
    def names(self) -> tuple[str, ...]:
        """All that is compared: published methods, ours, baselines and bounds."""
        every = (*self.policies, *self.methods)
        return tuple(name for kind in KINDS for name in every if kind_of(name) == kind)

    def groups(self) -> Iterator[Group]:
        """Groups of policies and methods that are played together.

        A policy that forecasts shares no work with others and is played alone, so a later comparison with another
        policy need not play it again. Methods that read the same forecast are played together.
        """
        played = [policy for policy in self.policies if policy not in HINDSIGHT]
        random = [policy for policy in played if "seed" in Candidate(policy).spec.needs]
        yield Group(self.seeds[0], tuple(policy for policy in played if policy not in random), (), every_seed=True)
        reads = tuple(method for method in self.methods if METHODS[method].forecast)
        for seed in self.seeds:
            for policy in random:
                yield Group(seed, (policy,), ())
            if reads:
                yield Group(seed, (), reads)
            for method in self.methods:
                if method not in reads:
                    yield Group(seed, (), (method,))


@dataclass(frozen=True, slots=True)
class Group:
    """Policies and methods that are played together with one seed.

    Attributes:
        every_seed: Whether the group has no randomness, so that one seed counts for all.
    """

    seed: int
    policies: tuple[str, ...]
    methods: tuple[str, ...]
    every_seed: bool = False
