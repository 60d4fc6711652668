"""A folder of profiles small enough to calculate by hand, and a cluster for it."""

from __future__ import annotations

from pathlib import Path

from mirage.schedule.gpu_cluster import GpuCluster, ServerGroup

CLUSTER = GpuCluster((ServerGroup("small", "slow", 2, 2), ServerGroup("large", "fast", 1, 4)))


def write_profiles(folder: Path) -> Path:
    """Profiles of one model, ``toy``, on two GPU types.

    First batch 10, largest 40. A step on the slow type takes 1 s at 10 samples and 3 s at 30; the exchange 0.2 s within
    a server, 0.5 s between two. The fast type takes half as long. Two epochs end at 100 and 300.
    """
    model = folder / "toy"
    model.mkdir(parents=True)
    for gpu_type, pace in (("slow", 1.0), ("fast", 0.5)):
        rows = ["placement,local_bsz,step_time,sync_time"]
        for placement, sync_s in (("1", 0.0), ("2", 0.2), ("11", 0.5), ("12", 0.6), ("13", 0.9), ("22", 0.7)):
            rows += [f"{placement},{local},{local / 10 * pace + sync_s},{sync_s}" for local in (10, 30)]
        (model / f"placements-{gpu_type}.csv").write_text("\n".join(rows) + "\n")
        sizes = ["num_nodes,num_replicas,local_bsz,step_time,sync_time"]
        sizes += [f"1,4,{local},{local / 10 * pace + 0.4},0.4" for local in (10, 20)]
        (model / f"scalability-{gpu_type}.csv").write_text("\n".join(sizes) + "\n")
    (model / "validation-10.csv").write_text("progress,grad_sqr,grad_var\n100,1,3\n300,1,9\n")
    (model / "validation-40.csv").write_text("progress,grad_sqr,grad_var\n110,2,6\n310,1,3\n")
    (folder / "models.toml").write_text("[toy]\nrestart_s = 12.0\nslowdown = 2.0\n")
    return folder
