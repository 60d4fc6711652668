"""The contract: a policy gets a view of a cluster and returns a plan.

A policy cannot distinguish a simulated cluster from a real one: both produce ``View`` and take ``Plan``, and this
package knows neither.
"""

from mirage.policy.contract import Policy, PolicySpec
from mirage.policy.cost import Cost
from mirage.policy.plan import (
    Action,
    Cancel,
    Hold,
    Lend,
    Plan,
    Postpone,
    Preempt,
    Reclaim,
    Release,
    Resize,
    Resume,
    Shorten,
    Start,
    Submit,
    Wait,
    Withdraw,
)
from mirage.policy.registry import known_policies, make_policy, policy_spec
from mirage.policy.settings import PolicySettings
from mirage.policy.view import Chain, Ended, Jobs, Nodes, QueuedLink, View

__all__ = [
    "Action",
    "Cancel",
    "Chain",
    "Cost",
    "Ended",
    "Hold",
    "Jobs",
    "Lend",
    "Nodes",
    "Plan",
    "Policy",
    "PolicySettings",
    "PolicySpec",
    "Postpone",
    "Preempt",
    "QueuedLink",
    "Reclaim",
    "Release",
    "Resize",
    "Resume",
    "Shorten",
    "Start",
    "Submit",
    "View",
    "Wait",
    "Withdraw",
    "known_policies",
    "make_policy",
    "policy_spec",
]
