"""Removes the private Slurm clusters of tests once their process has ended.

The fixtures remove them, but not where SIGTERM or SIGKILL ends pytest. It runs as a process of its own: standard input
names the folders of the clusters, a line each, and ends together with pytest.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path


def main() -> None:
    for folder in [Path(line.rstrip("\n")) for line in sys.stdin]:  # all lines, that is until pytest has ended
        if folder.exists():
            from mirage.lab.real.lab_spec import LabSpec
            from mirage.lab.real.private_cluster import PrivateCluster

            PrivateCluster(LabSpec(directory=folder)).purge()
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
