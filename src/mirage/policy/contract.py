"""What a policy is."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from mirage.policy.plan import Plan
from mirage.policy.view import View


@runtime_checkable
class Policy(Protocol):
    """Decides what to do about a cluster.

    A policy reads no clock, opens no file and starts no process: everything it may know is in the view, so that the
    same object decides in the simulator and on the real cluster. Randomness comes from a seed given when it was made.
    """

    def decide(self, view: View) -> Plan:
        """What to do now, and why; an empty plan to do nothing."""
        ...
