"""Policies by name, built-in or from the entry-point group ``mirage.policies``.

A name may carry a parameter: ``lead:4`` is the policy ``lead`` made with the text ``4``. An entry point names a class
or function that makes the policy and takes no argument, or a ``PolicySpec`` that declares what the policy takes.

A path is a name too: a model that ``mirage train`` wrote, or a tree in text. The file's content decides which it is.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from mirage.errors import ConfigurationError
from mirage.policy.contract import Policy, PolicySpec
from mirage.policy.policy_settings import PolicySettings
from mirage.registry import Registry

_RULES = "mirage.provision.policies.lead_rules"
_SIMULATES = ("discipline", "scheduler")

POLICIES: dict[str, PolicySpec] = {
    "auto": PolicySpec(
        "mirage.provision.policies.auto:auto",
        "the policy that suits the site: what-if or holds at first, then the best in evaluations of the site",
        "bank=no, model=MODEL",
        needs=("cost", "seed", *_SIMULATES, "limits", "bank_age", "choices"),
        revises_queued_link=True,
        names_policy="model",
        loads=("mirage.provision.policies.holds", "mirage.provision.policies.what_if"),
    ),
    "reactive": PolicySpec(f"{_RULES}:Reactive", "submit when the last link has ended"),
    "dependency": PolicySpec(f"{_RULES}:Dependency", "--dependency=afterany: queued, but held until the end"),
    "singleton": PolicySpec(
        f"{_RULES}:Singleton", "K links in a row with --dependency=singleton", "links that wait [1]"
    ),
    "lead": PolicySpec(f"{_RULES}:ConstantLead", "submit a constant number of hours ahead", "hours"),
    "saia": PolicySpec(f"{_RULES}:saia", "lead by nine minutes, as a service of that name does"),
    "sml": PolicySpec(f"{_RULES}:sml", "lead by three hours, as a launcher of that name does"),
    "hold": PolicySpec(
        f"{_RULES}:HoldForAge",
        "submit when the link cannot start, hold it, release it at the end, with its age",
        "hours before the end at which it is released [0]",
        revises_queued_link=True,
    ),
    "average": PolicySpec(f"{_RULES}:AverageWait", "lead by the mean wait of the last 100 started jobs"),
    "quantile": PolicySpec(f"{_RULES}:QuantileWait", "lead by a bound on a quantile of recent waits", "quantile"),
    "user-waits": PolicySpec(
        f"{_RULES}:UserWaits",
        "lead by the waits of the user's own jobs, for clusters that hide all others",
        needs=("cost",),
    ),
    "slurm-estimate": PolicySpec(
        "mirage.provision.policies.slurm_estimate:SlurmEstimate",
        "lead by the start the backfill plan promises",
        needs=_SIMULATES,
        estimates_for_slurm=True,
    ),
    "shell-tree": PolicySpec(
        "mirage.agentless.shell_tree:ShellTree",
        "a tree of what a shell knows inside the job, for chains without an agent",
        "use=SHARE, tree=FILE",
        needs=("scheduler", "limits"),
        estimates_for_slurm=True,
        revises_queued_link=True,
    ),
    "what-if": PolicySpec(
        "mirage.provision.policies.what_if:what_if",
        "run the visible queue forward many times and weigh the costs",
        "futures to simulate [64], and what else WhatIf takes: what-if:64:tie=0.05:quick=yes",
        needs=("cost", "seed", *_SIMULATES, "limits"),
    ),
    "holds": PolicySpec(
        "mirage.provision.policies.holds:holds",
        "what-if with revisions: submit ahead, hold, and release",
        "bank=no, insure=10, early=10, by=MODEL, and what what-if takes: holds:bank=yes:futures=64",
        needs=("cost", "seed", *_SIMULATES, "limits", "bank_age"),
        revises_queued_link=True,
        names_policy="by",
    ),
}
"""Name → specification of every policy that ships with the package."""


def _declared(entry: str, found: Any) -> PolicySpec | None:
    """The specification of a policy from an entry point; None where it is neither."""
    if isinstance(found, PolicySpec):
        return found
    return PolicySpec(entry, (found.__doc__ or entry).strip().splitlines()[0]) if callable(found) else None


_REGISTRY = Registry("policy", "mirage.policies", POLICIES, _declared, "a class, a function or a PolicySpec")


FROM_FILE = PolicySpec(
    "mirage.learn.policies.policy_file:policy_from_file",
    "a model that mirage train wrote, or a tree in text",
    "path of the file",
    needs=("cost", "seed", "discipline", "scheduler", "limits"),
    loads=(
        "mirage.learn.explain.tree_rule",
        "mirage.learn.networks.network_model",
        "mirage.learn.regression.published_regression",
        "mirage.learn.regression.boosted_outcomes",
        "mirage.learn.regression.corrected_forecast",
        "mirage.learn.regression.quantile_forest",
        "mirage.learn.regression.optimal_stopping",
    ),
)
"""How the policy in a file is made: the name is the parameter."""


def known_policies() -> tuple[str, ...]:
    """Names of the built-in policies and of those of installed packages; nothing is imported."""
    return _REGISTRY.names()


def policy_spec(name: str) -> PolicySpec:
    """The specification of a policy.

    Args:
        name: The policy's name, with or without a parameter.

    Raises:
        UnknownName: No such policy; the message lists the known ones.
        ConfigurationError: Two packages register the name, or one cannot be loaded.
    """
    return FROM_FILE if is_policy_file(name) else _REGISTRY.spec(name.partition(":")[0])


def is_policy_file(name: str) -> bool:
    """Whether a policy's name is the path of a file.

    It is one if it has a path separator; or if no policy has the name, and a file exists or the name has a dot.
    """
    first = name.partition(":")[0]
    return os.sep in first or (first not in known_policies() and ("." in first or Path(name).is_file()))


def policy_file(name: str) -> str | None:
    """The file that a policy is made from, by itself or by its parameter; None without one.

    ``./model`` for ``./model`` and for ``holds:by=./model``.
    """
    if is_policy_file(name):
        return name
    inner = policy_named_by(name)
    return None if inner is None else policy_file(inner)


def lasting_name(name: str) -> str:
    """The name by which a policy is found from every folder, with absolute paths.

    The path of a file becomes absolute, also within a parameter.
    """
    if is_policy_file(name):
        return os.path.abspath(os.path.expanduser(name))
    inner = policy_named_by(name)
    return name if inner is None else with_policy_named(name, lasting_name(inner))


def policy_named_by(name: str) -> str | None:
    """The policy that another one's parameter names; None where there is none.

    ``./model`` for ``holds:by=./model``.
    """
    before = _before_named(name)
    return None if before is None else name.removeprefix(before)


def with_policy_named(name: str, other: str) -> str:
    """The name with another policy in its parameter, where it names one; else unchanged."""
    before = _before_named(name)
    return name if before is None else before + other


def _before_named(name: str) -> str | None:
    """The part of a name before the policy that its parameter names."""
    base = name.partition(":")[0]
    if is_policy_file(name) or base not in known_policies() or not (key := policy_spec(base).names_policy):
        return None
    before, found, _ = name.partition(f":{key}=")
    return before + found if found else None


def make_policy(name: str, settings: PolicySettings | None = None) -> Policy:
    """Makes a policy from its name, ``name`` or ``name:parameter``; the only way to make one.

    Args:
        name: For example ``reactive``, ``lead:4``, ``what-if``, ``./model``.
        settings: Costs, seed, and how the cluster starts jobs; the policy gets those it needs.

    Raises:
        UnknownName: No such policy; the message lists the known ones.
        ConfigurationError: The policy takes no parameter or not this one, or it cannot be loaded.
    """
    if is_policy_file(name):
        return FROM_FILE.make(name, settings or PolicySettings())
    base, _, parameter = name.partition(":")
    spec = policy_spec(base)
    if parameter and not spec.parameter:
        raise ConfigurationError(f"policy {base!r} takes no parameter, got {parameter!r}")
    try:
        return spec.make(parameter, settings or PolicySettings())
    except ValueError as error:
        if not parameter:
            raise
        raise ConfigurationError(f"policy {base!r} takes {spec.parameter}, got {parameter!r}: {error}") from error
