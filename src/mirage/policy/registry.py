"""Policies by name; third-party ones come in through the entry-point group ``mirage.policies``.

A name may carry a parameter: ``lead:4`` is the policy ``lead`` made with the text ``4``. An entry point names a class
or function that makes the policy and takes nothing, or a ``PolicySpec`` that says what the policy takes.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

from mirage.errors import ConfigurationError, UnknownName
from mirage.policy.builtin import POLICIES
from mirage.policy.contract import Policy, PolicySpec
from mirage.policy.settings import PolicySettings

ENTRY_POINTS = "mirage.policies"


def known_policies() -> tuple[str, ...]:
    """Names of the built-in policies and of those of installed packages; nothing is imported."""
    return tuple(dict.fromkeys([*POLICIES, *entry_points(group=ENTRY_POINTS).names]))


def policy_spec(name: str) -> PolicySpec:
    """The specification of a policy.

    Args:
        name: With a parameter or without.

    Raises:
        UnknownName: No such policy; the message lists the known ones.
        ConfigurationError: Two packages want the name, or one cannot be loaded.
    """
    base = name.partition(":")[0]
    points = {point.value: point for point in entry_points(group=ENTRY_POINTS, name=base)}
    entries = [*([POLICIES[base].entry] if base in POLICIES else []), *points]
    if not entries:
        raise UnknownName("policy", base, known_policies())
    if len(entries) > 1:
        raise ConfigurationError(f"two policies want the name {base!r}: {' and '.join(entries)}; uninstall one")
    return POLICIES[base] if base in POLICIES else _declared(next(iter(points.values())))


def make_policy(name: str, settings: PolicySettings | None = None) -> Policy:
    """A policy from its name, ``name`` or ``name:parameter``: the one way to make one.

    Args:
        name: For example ``reactive``, ``lead:4``, ``what-if``.
        settings: Costs, seed, and how the cluster starts jobs; the policy gets what it needs of them.

    Raises:
        UnknownName: No such policy; the message lists the known ones.
        ConfigurationError: The policy takes no parameter or not that one, or it cannot be loaded.
    """
    base, _, parameter = name.partition(":")
    spec = policy_spec(base)
    if parameter and not spec.parameter:
        raise ConfigurationError(f"policy {base!r} takes no parameter, got {parameter!r}")
    return spec.make(parameter, settings or PolicySettings())


def _declared(point: EntryPoint) -> PolicySpec:
    """What an installed package says of its policy."""
    try:
        found = point.load()
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(
            f"policy {point.name!r} cannot be loaded from {point.value}: {error}; mend or uninstall its package"
        ) from error
    if isinstance(found, PolicySpec):
        return found
    if not callable(found):
        raise ConfigurationError(f"policy {point.name!r}: {point.value} is no class, no function and no PolicySpec")
    return PolicySpec(point.value, (found.__doc__ or point.value).strip().splitlines()[0])
