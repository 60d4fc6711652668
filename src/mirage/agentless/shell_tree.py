"""``shell-tree``: the policy of a chain without an agent."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from mirage.agentless.shell_code import measured_names
from mirage.agentless.shell_features import FEATURES, NAMES, THOUSAND, measured_state, use_of
from mirage.distill.tree import Tree
from mirage.distill.tree_reading import tree_of
from mirage.distill.tree_text import reason
from mirage.duration import MINUTE_S
from mirage.errors import ConfigurationError, UnknownName, shown
from mirage.job_state import MISSING
from mirage.policy.parameter import MODEL, ParameterForm, read_parameters
from mirage.policy.plan import Action, Hold, Plan, Release, Submit, Wait
from mirage.policy.view import ChainView, View
from mirage.provision.policies.lead_rules import chain_of, plan_without_choice
from mirage.provision.policies.slurm_estimate import SlurmEstimate
from mirage.sim.cluster import Limit
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.text_file import read_text_file

WAIT, SUBMIT = "wait", "submit"
ANSWERS = (WAIT, SUBMIT)
PASS_S = 5 * MINUTE_S
"""Time between two passes of the script in a job."""

MOST_LEAVES = 32
"""A tree of at most this size stays readable, and within the bytes of the compiled script."""


def _use(text: str) -> int:
    share = float(text)
    if not 0 < share <= 1:
        raise ValueError(text)
    return round(THOUSAND * share)


PARAMETERS = {"use": ParameterForm("SHARE (above 0, at most 1: 0.4 for 40 %)", _use), "tree": MODEL}
"""Parameters after the name: ``shell-tree:0.4``, ``shell-tree:use=0.4:tree=./tree.txt``."""


class ShellTree:
    """Decides by a tree of the features that a shell has inside the job.

    A link that competes is held again while the tree answers ``wait``, if the tree tests the wait that Slurm predicts
    and a held job retains its age on this cluster. Slurm plans the start of a link that competes; the policy remembers
    the planned wait while the link is held again. The reason of an action is the path to the answer.

    Args:
        parameter: ``use=SHARE``: the use of limits, by default that of the view's ended jobs; ``tree=FILE``: a
            tree of ``mirage.agentless`` features, by default the one that ships with the package.
        scheduler: The parameters of the cluster's scheduler; None for Slurm's defaults.
        limits: What users may run at once.

    Raises:
        ConfigurationError: The parameter or the tree is invalid.
    """

    def __init__(
        self, parameter: str = "", *, scheduler: SlurmSettings | None = None, limits: Sequence[Limit] = ()
    ) -> None:
        given = read_parameters("shell-tree", parameter, PARAMETERS)
        self.use: int | None = given.get("use")
        self.tree = shell_tree_from(given["tree"]) if "tree" in given else default_tree()
        self.scheduler = scheduler or SlurmSettings()
        self.age_retained = self.scheduler.retains_age(limits) and "slurm_wait" in measured_names(self.tree)
        self.slurm_plan = SlurmEstimate(scheduler=scheduler)
        self.planned: tuple[int, int | None] = (MISSING, None)

    def decide(self, view: View) -> Plan:
        """Returns the answer of the tree, for a link that is queued too."""
        chain = chain_of(view)
        queued = chain.queued
        if chain.ends_s <= view.now_s and queued is not None:
            return Plan((Release(reason="ended"),) if queued.held else ())
        if (plan := plan_without_choice(view, chain)) is not None:
            return plan
        use = use_of(view.ended, view.now_s) if self.use is None else self.use
        planned_wait_s = self._planned_wait_s(view, chain)
        state = measured_state(view, chain, use, age_retained=self.age_retained, planned_wait_s=planned_wait_s)
        row = {name: float(value) for name, value in state.row().items()}
        submits = self.tree.leaf_of(row).value == SUBMIT
        path = f"tree:{reason(self.tree, row)}"
        estimate = {
            f"{name}_s" if name in DURATIONS else name: row[name] for name in ("remaining", "slurm_wait", "use")
        }
        actions: tuple[Action, ...] = ()
        if queued is None:
            actions = (Submit(reason=path),) if submits else ()
        elif submits and queued.held:
            actions = (Release(reason=path),)
        elif self.age_retained and not submits and not queued.held:
            actions = (Hold(reason=path),)
        return Plan((*actions, Wait(reason=path, until_s=min(view.now_s + PASS_S, chain.ends_s))), estimate)

    def _planned_wait_s(self, view: View, chain: ChainView) -> int | None:
        """The wait in Slurm's plan when the next link last competed; None for no such wait."""
        queued = chain.queued
        if queued is None or not self.age_retained:
            return None
        if not queued.held:
            wait_s = self.slurm_plan.lead_s(view, chain)
            self.planned = queued.job, int(wait_s) if wait_s <= self.scheduler.bf_window_s else None
        job, planned_wait_s = self.planned
        return planned_wait_s if job == queued.job else None


DURATIONS = frozenset(feature.name for feature in FEATURES if feature.unit == "duration")


@lru_cache(maxsize=1)
def default_tree() -> Tree:
    """The tree that ships with the package; ``docs/reports/agentless.md`` has its origin."""
    return shell_tree_of(files("mirage.agentless").joinpath("default_tree.txt").read_text(encoding="utf-8"), "default")


def shell_tree_from(path: str) -> Tree:
    """Reads a tree from a file.

    Raises:
        ConfigurationError: The file cannot be read, or holds no tree that a shell can run.
    """
    return shell_tree_of(read_text_file(Path(path).expanduser(), "name a tree"), path)


def shell_tree_of(text: str, source: str) -> Tree:
    """Reads a tree of features that a shell has.

    Raises:
        ConfigurationError: It has other features or answers, or more than 32 leaves; the message begins with the
            source.
    """
    tree = tree_of(text, source)
    if tree.answers != ANSWERS:
        raise ConfigurationError(f"{source}: the tree does not answer wait or submit; write 'answers: wait, submit'")
    known = {feature.name: feature for feature in FEATURES}
    for feature in tree.features:
        if feature.name not in known:
            raise ConfigurationError(f"{source}: {UnknownName('feature of a shell', feature.name, NAMES)}")
        if known[feature.name] != feature:
            wanted: Any = known[feature.name].unit
            raise ConfigurationError(f"{source}: feature {shown(feature.name)} is a {wanted}, not a {feature.unit}")
    if len(tree.leaves) > MOST_LEAVES:
        raise ConfigurationError(f"{source}: the tree has {len(tree.leaves)} leaves; make one of at most {MOST_LEAVES}")
    return tree
