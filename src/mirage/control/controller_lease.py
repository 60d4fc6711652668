"""The lease of a controller in Slurm, and the fence around the owner's nodes.

Both are reservations. The lease ends by itself some minutes after its controller, and its start time is a random mark:
so a controller recognises its own lease.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable

from mirage.control.pools_file import Pools
from mirage.control.verbs import FENCE, LEASE, LEASE_MINUTES, Verb
from mirage.duration import MINUTE_S
from mirage.errors import ConfigurationError, SlurmRefused
from mirage.slurm.client import SlurmClient
from mirage.slurm.gpu_snapshot import all_reservations
from mirage.slurm.records import SlurmReservation

RENEW_S = 110
"""Seconds after which a snapshot or a plan renews the lease; that takes one request."""

_LATEST_RENEWAL_S = 150
"""Seconds after which the lease is renewed without a snapshot; that takes two requests."""

_MARGIN_S = 30

_OLDEST_START_S = 540
"""Slurm refuses a reservation that starts more than ten minutes in the past."""


class ControllerLease:
    """The lease and the fence of one controller.

    Args:
        slurm: The cluster, with the rights of an operator.
        pools: The file of pools.
        clock: The present time, in seconds since 1970.
        mark_s: Start time of the last lease of this folder, in seconds since 1970; −1 for none.
        send: Writes a verb and its undo into the journal, and runs its command.

    Attributes:
        renewed_s: Time of the last renewal; None before the lease is taken.
    """

    def __init__(
        self,
        slurm: SlurmClient,
        pools: Pools,
        clock: Callable[[], float],
        mark_s: int,
        send: Callable[[Verb, Verb], None],
    ) -> None:
        self.slurm, self.pools, self.clock, self.mark_s, self.send = slurm, pools, clock, mark_s, send
        self.renewed_s: float | None = None

    def take(self) -> None:
        """Take the lease in Slurm, and make the fence if there is none.

        Raises:
            SlurmRefused: Another controller has the lease, or the rights are missing.
            ConfigurationError: There is no fence, and the file does not name the users of the owner.
        """
        self._hold(all_reservations(self.slurm))

    def renew(self, reservations: Iterable[SlurmReservation]) -> None:
        """Renew a lease that was taken, if it is time.

        Args:
            reservations: Those of now.
        """
        if self.renewed_s is not None:
            self._hold(reservations)

    def tick(self) -> None:
        """Renew a lease for which no snapshot has come.

        Raises:
            SlurmError: It cannot be renewed: the executor must end.
        """
        self.check()
        if self.renewed_s is not None and self.clock() - self.renewed_s >= _LATEST_RENEWAL_S:
            self._hold(all_reservations(self.slurm))

    def _hold(self, reservations: Iterable[SlurmReservation]) -> None:
        """Renew or take the lease, and make the fence if needed.

        Slurmctld writes reservations a few seconds after it has made them: one that is killed loses the last ones,
        the lease among them (22.05.8).
        """
        found = {one.name: one for one in reservations}
        lease = found.get(LEASE)
        self.check_is_alone(found.values())
        fence = found.get(FENCE)
        needs_fence = fence is None or not set(self.pools.owner_nodes) <= set(fence.nodes)
        if needs_fence and (fence is not None or not (self.pools.owner_users or self.pools.owner_accounts)):
            raise ConfigurationError(
                f"{FENCE} does not have all nodes of the owner; make it as `mirage control check` shows, or remove it "
                f"and give [owner] users or accounts in {self.pools.path}"
            )
        if lease is None:
            self.mark_s = int(self.clock()) - secrets.randbelow(_OLDEST_START_S)
            self.send(Verb("lease", users=(self.slurm.user,), start_s=self.mark_s), Verb("unlease"))
            self.renewed_s = self.clock()
        elif self.renewed_s is None or self.clock() - self.renewed_s >= RENEW_S:
            self.send(Verb("renew"), Verb("unlease"))
            self.renewed_s = self.clock()
        if needs_fence:
            self.send(Verb("fence"), Verb("unfence"))

    def check_is_alone(self, reservations: Iterable[SlurmReservation]) -> None:
        """Check that no controller with another folder has the lease.

        Args:
            reservations: Those of now.

        Raises:
            SlurmRefused: One has.
        """
        if any(one.name == LEASE and one.start_s != self.mark_s for one in reservations):
            raise SlurmRefused(
                f"another controller acts on this cluster: the reservation {LEASE} exists; end it (its folder: "
                f"--state), or wait {LEASE_MINUTES} minutes"
            )

    def check(self) -> None:
        """Check that the lease has not ended: another controller may have it since."""
        if self.renewed_s is not None and self.clock() - self.renewed_s > LEASE_MINUTES * MINUTE_S - _MARGIN_S:
            raise SlurmRefused("the lease has ended, as Slurm has not answered for minutes; begin again")
