"""Reservations as ``scontrol --oneliner show reservation`` of 22.05.8 prints them."""

from __future__ import annotations

from mirage.slurm.records import SkippedRecords, SlurmReservation
from mirage.slurm.text.reservations import read_reservations

PRINTED = """\
ReservationName=maint1 StartTime=1795719176 EndTime=1795722776 Duration=01:00:00 Nodes=n[1-4] NodeCnt=4 CoreCnt=256 \
Features=(null) PartitionName=(null) Flags=MAINT,IGNORE_JOBS,SPEC_NODES,ALL_NODES TRES=cpu=256 Users=root \
Groups=(null) Accounts=(null) Licenses=(null) State=INACTIVE BurstBuffer=(null) Watts=n/a MaxStartDelay=(null)
ReservationName=weekd StartTime=1795860000 EndTime=1795863600 Duration=01:00:00 Nodes=n[1-2] NodeCnt=2 CoreCnt=128 \
Features=(null) PartitionName=main Flags=WEEKDAY TRES=cpu=128 Users=(null) Groups=(null) Accounts=phys,chem \
Licenses=(null) State=INACTIVE BurstBuffer=(null) Watts=n/a MaxStartDelay=(null)
ReservationName=we ird StartTime=1795771376 EndTime=1795771976 Duration=00:10:00 Nodes=n4 NodeCnt=1 CoreCnt=64 \
Features=(null) PartitionName=(null) Flags=OVERLAP,SPEC_NODES TRES=cpu=64 Users=root,ada Groups=(null) \
Accounts=(null) Licenses=(null) State=ACTIVE BurstBuffer=(null) Watts=n/a MaxStartDelay=00:10:00
ReservationName=cores StartTime=1795728397 EndTime=1795731997 Duration=01:00:00 Nodes=n2 NodeCnt=1 CoreCnt=4 \
Features=(null) PartitionName=main Flags=OVERLAP,SPEC_NODES   NodeName=n2 CoreIDs=0-3 TRES=cpu=4 Users=root \
Groups=(null) Accounts=(null) Licenses=(null) State=INACTIVE BurstBuffer=(null) Watts=n/a MaxStartDelay=(null)
ReservationName=tokens StartTime=1795728397 EndTime=1795731997 Duration=01:00:00 Nodes=(null) NodeCnt=0 CoreCnt=0 \
Features=(null) PartitionName=(null) Flags=ANY_NODES TRES=(null) Users=root Groups=(null) Accounts=(null) \
Licenses=matlab:2 State=INACTIVE BurstBuffer=(null) Watts=n/a MaxStartDelay=(null)
"""


def test_reservations_of_a_real_slurm() -> None:
    maintenance = ("MAINT", "IGNORE_JOBS", "SPEC_NODES", "ALL_NODES")
    assert read_reservations(PRINTED) == (
        (
            SlurmReservation("maint1", 1795719176, 1795722776, ("n1", "n2", "n3", "n4"), maintenance, ("root",)),
            SlurmReservation("weekd", 1795860000, 1795863600, ("n1", "n2"), ("WEEKDAY",), (), ("phys", "chem")),
            SlurmReservation(
                "we ird",
                1795771376,
                1795771976,
                ("n4",),
                ("OVERLAP", "SPEC_NODES"),
                ("root", "ada"),
                lends=True,
                active=True,
            ),
            SlurmReservation(
                "cores", 1795728397, 1795731997, ("n2",), ("OVERLAP", "SPEC_NODES"), ("root",), partial=True
            ),
        ),
        SkippedRecords(),
    )


def test_no_reservation() -> None:
    assert read_reservations("No reservations in the system\n") == ((), SkippedRecords())
    assert read_reservations("slurm is tired") == ((), SkippedRecords(1, "slurm is tired"))


def test_a_line_that_cannot_be_read_is_skipped(newfoundland: None) -> None:
    maintenance = PRINTED.splitlines()[0]
    for damaged in (
        maintenance.replace("StartTime", "Start"),
        maintenance.replace("1795722776", "Unknown"),
        maintenance.replace("n[1-4]", "n[4-1]"),
    ):
        found, skipped = read_reservations(f"{damaged}\n{PRINTED}")
        assert (len(found), skipped) == (4, SkippedRecords(1, damaged[:200]))
    in_words = maintenance.replace("1795719176", "2026-11-26T15:22:56")  # an older scontrol ignores SLURM_TIME_FORMAT
    assert read_reservations(in_words)[0][0].start_s == 1795719176
