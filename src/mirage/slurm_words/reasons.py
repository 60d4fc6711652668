"""The reasons why Slurm lets a job wait, in plain words.

From squeue(1) of Slurm 21.08 to 25.11; a reason not listed here is shown as Slurm prints it.
"""

from __future__ import annotations

_WORDS = {
    "JobHeldAdmin": "held by an administrator",
    "JobHeldUser": "held by its user; `scontrol release` releases it",
    "JobHoldMaxRequeue": "held by Slurm: requeued too often",
    "PartitionDown": "its partition is down",
    "PartitionInactive": "its partition is inactive",
    "PartitionNodeLimit": "it requests more nodes than its partition gives",
    "PartitionTimeLimit": "its time limit is longer than its partition allows",
    "PartitionConfig": "its partition is not open to it, or has no node that is large enough",
    "QOSTimeLimit": "its time limit is longer than its QOS allows",
    "QOSMaxWallDurationPerJobLimit": "its time limit is longer than its QOS allows",
    "AssociationTimeLimit": "its time limit is longer than its account allows",
    "AssocMaxWallDurationPerJobLimit": "its time limit is longer than its account allows",
    "QOSNotAllowed": "its QOS may not be used there",
    "QOSMaxJobsPerUserLimit": "its user has as many jobs running as the QOS allows",
    "QOSMaxNodePerUserLimit": "its user holds as many nodes as the QOS allows",
    "QOSMaxGRESPerUser": "its user holds as many GPUs as the QOS allows",
    "MaxJobsPerAccount": "as many jobs of its account run as the QOS allows",
    "MaxNodePerAccount": "its account holds as many nodes as the QOS allows",
    "MaxGRESPerAccount": "its account holds as many GPUs as the QOS allows",
    "QOSGrpJobsLimit": "as many jobs of its QOS run as are allowed",
    "QOSGrpNodeLimit": "the jobs of its QOS hold as many nodes as are allowed",
    "QOSGrpGRES": "the jobs of its QOS hold as many GPUs as are allowed",
    "AssocMaxJobsLimit": "as many jobs of its account run as are allowed",
    "AssocGrpCPUMinutesLimit": "the time of its account is used up",
    "AssocGrpBillingMinutes": "the budget of its account is used up",
    "AssocGrpGRESMinutes": "the GPU time of its account is used up",
    "BadConstraints": "no node can ever satisfy its constraints",
    "Reservation": "it waits for its reservation to begin",
    "ReservationDeleted": "its reservation is gone",
    "ReqNodeNotAvail": "nodes that it needs are not available: down, drained, or reserved for maintenance",
    "NodeDown": "a node that it needs is down",
    "Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority_partitions": (
        "nodes that it needs are down, drained or reserved"
    ),
    "Licenses": "it waits for licences",
    "DependencyNeverSatisfied": "its dependency can never be satisfied",
    "InvalidAccount": "its account is not known",
    "InvalidQOS": "its QOS is not known",
    "AccountNotAllowed": "its account may not use that partition",
    "FrontEndDown": "the front end is down",
    "launch_failed_requeued_held": "held by Slurm: it could not be launched",
    "JobArrayTaskLimit": "as many tasks of its array run as it allows at once",
    "BeginTime": "it may not start before its begin time",
}

_USUAL = frozenset({"", "None", "Priority", "Resources", "Dependency", "Cleaning", "Prolog", "WaitingForScheduling"})
"""Reasons that need no action: they end by themselves."""


def is_usual(reason: str) -> bool:
    """Whether a job with this reason only waits for its turn."""
    return _word(reason) in _USUAL


def in_words(reason: str) -> str:
    """A reason in plain words, followed by Slurm's own; empty for none."""
    word = _word(reason)
    if is_usual(word):
        return ""
    return f"{_WORDS[word]} ({reason})" if word in _WORDS else reason


def _word(reason: str) -> str:
    """The reason without its details, as in ``ReqNodeNotAvail,_UnavailableNodes:n1``."""
    plain = reason.strip().strip("()").replace(" ", "_")
    return plain if plain in _WORDS else plain.partition(",")[0]
