"""A server of HyperQueue with a worker of one core: ``hyperqueue_server.py FOLDER``."""

from __future__ import annotations

import signal
import sys

from hyperqueue.cluster import LocalCluster, WorkerConfig

if __name__ == "__main__":
    cluster = LocalCluster(sys.argv[1], WorkerConfig(cores=1))
    signal.pause()
