"""The file by which a planner gets the snapshots of its executor.

One snapshot serves both: the planner decides on it, and the executor checks the plan with it. The planner requests the
next snapshot by removing the file. So the file is never an old one, and the planner sends nothing to Slurm.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from mirage.atomic_file import write_output
from mirage.errors import ConfigurationError, SlurmError, SlurmUnreachable, reason
from mirage.slurm.gpu_snapshot import GpuSnapshot, GpuSnapshotSeries, GpuSnapshotText
from mirage.slurm.text.gpu_nodes import GpuNode

SNAPSHOT = "snapshot.json"
_FORMAT = "mirage-control-snapshot-1"
_PAUSE_S = 0.1


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """The content of the file.

    Attributes:
        time_s: When the snapshot was begun, in seconds since 1970.
        problem: Why there is no snapshot; empty if there is one.
        text: The snapshot; None with a problem.
    """

    time_s: int
    problem: str = ""
    text: GpuSnapshotText | None = None

    def parsed(self) -> GpuSnapshot:
        """The snapshot.

        Raises:
            SlurmUnreachable: There is none, or it cannot be read completely.
        """
        if self.text is None:
            raise SlurmUnreachable(self.problem)
        return self.text.parsed()


def answer_request(
    folder: Path, snapshots: GpuSnapshotSeries, time_s: float, use: Callable[[GpuSnapshot], None]
) -> None:
    """Take a snapshot, let the executor use it, and write it for the planner.

    Args:
        folder: The folder of the executor.
        snapshots: The snapshots of the executor.
        time_s: The present time, in seconds since 1970.
        use: Called with the snapshot before it is written; what it raises is raised.

    Raises:
        ConfigurationError: The file cannot be written.
    """
    try:
        text = snapshots.take(time_s)
        snapshot = text.parsed()
    except SlurmError as error:
        found = SnapshotFile(int(time_s), str(error))
    else:
        use(snapshot)
        found = SnapshotFile(text.time_s, text=text)
    write_output(folder / SNAPSHOT, json.dumps({"format": _FORMAT, **asdict(found)}), 0o600)


def begin_without_request(folder: Path) -> None:
    """Replace the file of a former executor: no snapshot is requested yet.

    Raises:
        ConfigurationError: The file cannot be written.
    """
    write_output(folder / SNAPSHOT, "", 0o600)


def is_requested(folder: Path) -> bool:
    """Whether the planner waits for a snapshot."""
    return not (folder / SNAPSHOT).exists()


def request_snapshot(folder: Path, check: Callable[[], None]) -> SnapshotFile:
    """Request a snapshot of the executor, and wait for it.

    Args:
        folder: The folder of the executor.
        check: Called while it waits; raises an error if the executor has ended.

    Raises:
        ConfigurationError: The file is not one of an executor.
    """
    path = folder / SNAPSHOT
    path.unlink(missing_ok=True)
    while not path.exists():
        check()
        time.sleep(_PAUSE_S)
    try:
        row = json.loads(path.read_bytes())
        if row.pop("format") != _FORMAT:
            raise ValueError("of another format")
        text = row.pop("text")
        if text is not None:
            nodes = [GpuNode(**{**node, "partitions": tuple(node["partitions"])}) for node in text.pop("nodes")]
            return SnapshotFile(**row, text=GpuSnapshotText(**text, nodes=tuple(nodes)))
        return SnapshotFile(**row)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        why = reason(error)
        raise ConfigurationError(f"{path} cannot be read: {why}; does another process write there?") from error
