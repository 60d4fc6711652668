"""Policies by name; third-party ones come in through the entry-point group ``mirage.policies``.

A name may carry its parameters: ``lead:4`` is the policy ``lead`` made with the text ``4``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from mirage.errors import ConfigurationError, UnknownName
from mirage.policy.contract import Policy

ENTRY_POINTS = "mirage.policies"


@dataclass(frozen=True, slots=True)
class PolicySpec:
    """A policy by name.

    Attributes:
        entry: ``module:factory``; the factory takes the parameter text first, then keyword settings.
        summary: One line for menus.
        parameter: What the text after the colon means; empty if the policy takes none.
    """

    entry: str
    summary: str
    parameter: str = ""

    def load(self) -> Callable[..., Policy]:
        """The factory."""
        module, _, name = self.entry.partition(":")
        factory: Callable[..., Policy] = getattr(import_module(module), name)
        return factory


POLICIES: dict[str, PolicySpec] = {}
"""Name → specification of every policy that ships with the package or was registered."""


def register(name: str, spec: PolicySpec) -> None:
    """Make a policy known under a name.

    Raises:
        ConfigurationError: The name is taken by another one.
    """
    if POLICIES.get(name, spec) != spec:
        raise ConfigurationError(f"two policies want the name {name!r}: {POLICIES[name].entry} and {spec.entry}")
    POLICIES[name] = spec


def known_policies() -> dict[str, PolicySpec]:
    """Built-in policies and those of installed packages."""
    known = dict(POLICIES)
    for point in entry_points(group=ENTRY_POINTS):
        known.setdefault(point.name, PolicySpec(point.value, f"from {point.value}"))
    return known


def make_policy(name: str, **settings: Any) -> Policy:
    """A policy from its name, ``name`` or ``name:parameter``.

    Args:
        name: For example ``reactive``, ``lead:4``, ``what-if``.
        settings: Handed to the factory: costs, seed, what the policy's own docstring lists.

    Raises:
        UnknownName: No such policy; the message lists the known ones.
        ConfigurationError: The policy takes no parameter, or not that one.
    """
    base, _, parameter = name.partition(":")
    known = known_policies()
    if base not in known:
        raise UnknownName("policy", base, known)
    spec = known[base]
    if parameter and not spec.parameter:
        raise ConfigurationError(f"policy {base!r} takes no parameter, got {parameter!r}")
    return spec.load()(parameter, **settings)
