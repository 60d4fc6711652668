"""The contract of a policy: what it does, and how it is made from a name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Protocol, runtime_checkable

from mirage.errors import ConfigurationError, ContractBroken, shown
from mirage.policy.plan import Plan
from mirage.policy.policy_settings import PolicySettings
from mirage.policy.view import View
from mirage.registry import call_entry, load_entry, unusable


@runtime_checkable
class Policy(Protocol):
    """Decides what to do about a cluster.

    A policy reads no clock, opens no file and starts no process: all its input is in the view, so the same object
    decides in the simulator and on the real cluster. Randomness comes from a seed given when it was made.
    """

    def decide(self, view: View) -> Plan:
        """Returns what to do now, and why; an empty plan to do nothing."""
        ...


def plan_of(policy: Policy, view: View) -> Plan:
    """Returns what a policy decides about a view.

    Raises:
        ContractBroken: It returns no plan.
    """
    plan: object = policy.decide(view)
    if not isinstance(plan, Plan):
        name = type(policy).__name__
        raise ContractBroken(f"{name} returns {shown(plan)}; a policy returns a Plan, an empty one to do nothing")
    return plan


_SETTINGS = tuple(field.name for field in fields(PolicySettings))


@dataclass(frozen=True, slots=True)
class PolicySpec:
    """How a policy is made from a name, ``name`` or ``name:parameter``.

    The factory is called with the parameter's text, if the policy takes one, and with what it needs by keyword:
    ``factory("64", cost=…, seed=…)``.

    Attributes:
        entry: Where the factory is, ``module:class`` or ``module:function``.
        summary: One line for menus.
        parameter: What the text after the colon means; empty if the policy takes none.
        needs: Fields of ``PolicySettings`` that the factory takes: ``cost``, ``seed``, ``discipline``, ``scheduler``,
            ``limits``, ``bank_age``, ``choices``.
        revises_queued_link: Whether it is also called while its link is queued, and may hold, move, shorten or withdraw
            it.
        names_policy: Which value of its parameter names another policy, as ``by`` does in ``holds:by=./model``.
        loads: Modules with code that decides too; ``entry`` does not import them but loads them by name.
        estimates_for_slurm: Whether it computes from a view what Slurm would print, such as an expected start. Slurm
            knows all jobs, also where it hides those of other users.

    Raises:
        ConfigurationError: ``needs`` has a name that is no field of ``PolicySettings``.
    """

    entry: str
    summary: str
    parameter: str = ""
    needs: tuple[str, ...] = ()
    revises_queued_link: bool = False
    names_policy: str = ""
    loads: tuple[str, ...] = ()
    estimates_for_slurm: bool = False

    def __post_init__(self) -> None:
        if unknown := sorted(set(self.needs) - set(_SETTINGS)):
            raise ConfigurationError(f"{self.entry} needs {', '.join(unknown)}; known are {', '.join(_SETTINGS)}")

    def load(self) -> Callable[..., Policy]:
        """Imports and returns the factory."""
        factory: Callable[..., Policy] = load_entry(self.entry)
        return factory

    def make(self, parameter: str, settings: PolicySettings) -> Policy:
        """Makes the policy; the factory gets only the settings it needs.

        Raises:
            ConfigurationError: The factory cannot be imported, does not take these arguments, or makes no policy.
        """
        needed = {name: getattr(settings, name) for name in self.needs}
        made = call_entry(self.entry, *([parameter] if self.parameter else []), **needed)
        if not isinstance(made, Policy):
            raise unusable(self.entry, f"makes {shown(made)}, which has no method decide(view)")
        return made
