"""The one contract: a policy looks at a view of a cluster and answers with a plan. It cannot tell which world it is in.

The simulator and the real cluster both produce ``View`` and both take ``Plan``; this room knows neither of them.
"""

from mirage.policy.contract import Policy
from mirage.policy.plan import (
    Action,
    Cancel,
    Lend,
    Plan,
    Preempt,
    Reclaim,
    Resize,
    Resume,
    Start,
    Submit,
    Wait,
)
from mirage.policy.registry import POLICIES, PolicySpec, make_policy, register
from mirage.policy.view import Chain, Ended, Jobs, Nodes, View

__all__ = [
    "POLICIES",
    "Action",
    "Cancel",
    "Chain",
    "Ended",
    "Jobs",
    "Lend",
    "Nodes",
    "Plan",
    "Policy",
    "PolicySpec",
    "Preempt",
    "Reclaim",
    "Resize",
    "Resume",
    "Start",
    "Submit",
    "View",
    "Wait",
    "make_policy",
    "register",
]
