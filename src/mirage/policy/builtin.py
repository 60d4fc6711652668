"""Built-in policies by name: one line each, imported when a policy is made."""

from __future__ import annotations

from mirage.policy.contract import PolicySpec

_RULES = "mirage.provision.policies.lead_rules"
_SIMULATES = ("discipline", "scheduler")

POLICIES: dict[str, PolicySpec] = {
    "reactive": PolicySpec(f"{_RULES}:Reactive", "submit when the last link has ended"),
    "dependency": PolicySpec(f"{_RULES}:Dependency", "--dependency=afterany: queued, but held until the end"),
    "singleton": PolicySpec(
        f"{_RULES}:Singleton", "K links in a row with --dependency=singleton", "links that wait [1]"
    ),
    "lead": PolicySpec(f"{_RULES}:ConstantLead", "submit a constant number of hours ahead", "hours"),
    "saia": PolicySpec(f"{_RULES}:saia", "lead by nine minutes, as a service of that name does"),
    "sml": PolicySpec(f"{_RULES}:sml", "lead by three hours, as a launcher of that name does"),
    "average": PolicySpec(f"{_RULES}:AverageWait", "lead by the mean wait of the last 100 started jobs"),
    "quantile": PolicySpec(f"{_RULES}:QuantileWait", "lead by a bound on a quantile of recent waits", "quantile"),
    "slurm-estimate": PolicySpec(
        "mirage.provision.policies.slurm_estimate:SlurmEstimate",
        "lead by the start the backfill plan promises",
        needs=_SIMULATES,
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
