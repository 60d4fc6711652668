"""A queue policy in plain Python, in place of a discipline: the widest jobs first."""

import mirage as m


class WidestFirst:
    """Starts the widest job that fits."""

    def decide(self, view: m.View) -> m.Plan:
        free, starts = int(view.nodes.free[0, 0]), []
        for k in (-view.pending.nodes).argsort(kind="stable"):
            if view.pending.nodes[k] <= free:
                free -= int(view.pending.nodes[k])
                starts.append(m.Start(job=int(view.pending.id[k]), reason="fits"))
        return m.Plan(tuple(starts))


jobs = m.generate_workload(m.builtin_model("lonestar6-like"), jobs=400, seed=2)
for discipline in (WidestFirst(), "fcfs"):
    schedule = m.simulate(m.Cluster.pool(76), jobs, discipline)
    name = discipline if isinstance(discipline, str) else type(discipline).__name__
    print(f"{name}: mean wait {(schedule.start_s - schedule.table.submit_s).mean() / 3600:.2f} h")
