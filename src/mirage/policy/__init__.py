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
from mirage.policy.policy_registry import known_policies, make_policy, policy_spec
from mirage.policy.policy_settings import PolicySettings
from mirage.policy.view import ChainView, Ended, Nodes, QueuedLink, QueueJobs, View

__all__ = [
    "Action",
    "Cancel",
    "ChainView",
    "Cost",
    "Ended",
    "Hold",
    "Lend",
    "Nodes",
    "Plan",
    "Policy",
    "PolicySettings",
    "PolicySpec",
    "Postpone",
    "Preempt",
    "QueueJobs",
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
