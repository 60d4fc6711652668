"""An elastic job for a real cluster: it saves on a signal, restores, and logs both."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

SAVE_S, RESTORE_S = 1.0, 0.5

SCRIPT = f"""#!/bin/bash
#SBATCH --output=/dev/null
report() {{ printf '{{"step": %s, "steps": 99999, "saved_step": %s}}' $step $saved > $1.new; mv $1.new $1.json; }}
log() {{ echo "$(date +%s.%N) $2 $step $SLURM_JOB_NUM_NODES $SLURM_GPUS_ON_NODE" >> $1.log; }}
save() {{ log $1 signal; sleep {SAVE_S}; saved=$step; echo $step > $1.checkpoint; report $1; log $1 saved; }}
work=$1
step=$(cat $work.checkpoint 2>/dev/null || echo 1) saved=$step
trap "save $work" USR1
sleep {RESTORE_S}
log $work restored
while true; do step=$((step + 1)); report $work; sleep 0.2; done
"""


@dataclass(frozen=True)
class Event:
    """A line of the log."""

    time_s: float
    what: str
    step: int
    nodes: int
    gpus_on_node: int


def events(path: Path) -> list[Event]:
    """The log of a job."""
    rows = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
    return [Event(float(time_s), what, int(step), int(nodes), int(gpus)) for time_s, what, step, nodes, gpus in rows]
