"""``auto``: the policy that suits a site and a link.

On an unknown site it follows from the scheduler's settings: ``holds`` where a held job retains its age, otherwise
``what-if``. An evaluation on the site's own accounting may choose another one, but only where the difference is beyond
its interval, see ``mirage.provision.evaluation.rolling_choice``. Links are submitted early only to gather age where the
user allows it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mirage.errors import ConfigurationError
from mirage.policy.auto_parameters import AUTO, BANKING, HOLDS, WHAT_IF, AutoParameters
from mirage.policy.contract import Policy
from mirage.policy.plan import Action, Plan, Release, Wait
from mirage.policy.policy_choice import PolicyChoice, nearest_choice
from mirage.policy.policy_registry import make_policy, policy_spec
from mirage.policy.policy_settings import PolicySettings
from mirage.policy.view import View
from mirage.provision.policies.lead_rules import chain_of
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings


def default_choice(settings: PolicySettings, *, bank_age: bool) -> PolicyChoice:
    """Returns the policy for a site that has not been evaluated.

    Args:
        settings: Of the policy: how the site orders its queue, and its limits.
        bank_age: Whether links may be submitted early only to gather age.
    """
    scheduler = settings.scheduler if isinstance(settings.scheduler, SlurmSettings) else SlurmSettings()
    if not scheduler.retains_age(settings.limits):  # type: ignore[arg-type]
        return PolicyChoice(WHAT_IF, "a job that is held loses its age on this cluster")
    if bank_age:
        return PolicyChoice(BANKING, "a held job retains its age, and --bank-age allows to gather it")
    return PolicyChoice(HOLDS, "a held job retains its age")


def auto(parameter: str = "", *, bank_age: bool = False, **needed: Any) -> Auto:
    """Creates ``auto`` from the parameter in its name and the settings that it needs.

    Raises:
        ConfigurationError: The parameter is invalid, or its model is no policy.
    """
    given = AutoParameters.of(parameter)
    settings = PolicySettings(**needed)
    if given.model:
        make_policy(given.model, settings)
    return Auto(settings, bank_age=bank_age or given.bank)


class Auto:
    """Decides by another policy, the one chosen for links of the present size.

    Args:
        settings: Costs, seed, the scheduler, and the choices of evaluations on this site.
        bank_age: Whether links may be submitted early only to gather age.
    """

    def __init__(self, settings: PolicySettings, *, bank_age: bool = False) -> None:
        self.settings, self.bank_age = settings, bank_age
        self.default = default_choice(settings, bank_age=bank_age)
        self._made: dict[str, Policy] = {}

    def choice(self, nodes: int, limit_s: int) -> PolicyChoice:
        """Returns the policy for links of a size."""
        ratio = self.settings.cost.ratio
        found = nearest_choice(self.settings.choices, nodes, limit_s, ratio, bank_age=self.bank_age)
        return self.default if found is None else found

    def decide(self, view: View) -> Plan:
        """Decide as the chosen policy does.

        A policy that revises no queued link lets it compete, also if another one held it before.
        """
        chain = chain_of(view)
        choice = self.choice(chain.nodes, chain.limit_s)
        if chain.queued is not None and not policy_spec(choice.policy).revises_queued_link:
            held = chain.queued.held or chain.queued.begins_s > view.now_s
            action: Action = Release(reason="competes") if held else Wait(reason="competes")
            return Plan((action,), choice=choice)
        return replace(self._policy(choice.policy).decide(view), choice=choice)

    def _policy(self, name: str) -> Policy:
        if name not in self._made:
            try:
                self._made[name] = make_policy(name, self.settings)
            except ConfigurationError as error:
                raise ConfigurationError(f"{AUTO} chose {name}, which cannot be made: {error}") from error
        return self._made[name]
