"""``mirage demo``: a service kept alive on a busy simulated cluster."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mirage.atomic_file import write_output
from mirage.cli.options import CONTEXT, CostOptions, cost_options, examples, json_output, seed_option, workers_option
from mirage.cli.output import check_page
from mirage.version import __version__

if TYPE_CHECKING:
    from mirage.chains.demonstration import Demonstration


@click.command(
    context_settings=CONTEXT,
    epilog=examples(
        "mirage demo                              two weeks in half a minute, and a report",
        "mirage demo --seed 7 -o other.html       another cluster",
        "mirage demo --interruption-cost 10       for a service that must not be down",
        "mirage demo --json | jq .chains",
    ),
)
@click.option("-o", "--out", default="mirage-demo.html", show_default=True, metavar="FILE", help="Report to write.")
@seed_option
@cost_options(interruption=3.0, overlap=1.0)
@workers_option
@json_output
def demo(out: str, seed: int, costs: CostOptions, workers: int | None, as_json: bool) -> None:
    """Keep a service alive for two weeks on a simulated cluster, with and without foresight.

    The cluster, its users and its queue are synthetic, modelled on the A100 partition of a large machine. The agent
    keeps a chain of 12-hour jobs alive three times: once it submits the next job when the last one has ended, once it
    simulates the visible queue and submits the next job in time, and once it decides as it does by default. The report
    is one HTML file that needs no network.
    """
    from mirage.report.terminal.demo_text import print_demonstration, stages

    cost = costs.cost()
    check_page(out)
    with stages() as progress:
        progress("loading the simulator (the first time, it is compiled: about a minute)")
        from mirage.provision.compile_simulator import compile_with_forecasts
        from mirage.study.executors.local_processes import available_cores

        processes = workers or available_cores()
        compile_with_forecasts("slurm", processes)  # before the import of a module that compiles
        from mirage.chains.demonstration import demonstrate

        shown = demonstrate(seed, cost, processes, progress)
        progress("writing the report")
        from mirage.report.pages.demo_page import demo_page

        write_output(out, demo_page(shown, _command(shown, out), __version__))
    if as_json:
        click.echo(json.dumps(_report(shown, out), indent=2))
    else:
        print_demonstration(shown, out)


def _command(shown: Demonstration, out: str) -> str:
    """Returns the command that reproduces this demonstration, with all defaults written out."""
    costs = ["--interruption-cost", f"{shown.cost.interruption:g}", "--overlap-cost", f"{shown.cost.overlap:g}"]
    return shlex.join(["mirage", "demo", "--seed", str(shown.seed), *costs, "-o", Path(out).name])


def _report(shown: Demonstration, out: str) -> dict[str, Any]:
    from mirage.duration import HOUR_S
    from mirage.job_state import MISSING
    from mirage.trace.statistics.summary import iso_utc

    def instant(time_s: int) -> str | None:
        return None if time_s == MISSING else iso_utc(time_s)

    chains = [
        {
            "policy": policy,
            "link_nodes": nodes,
            "interruption_h": run.interruption_s / HOUR_S,
            "overlap_h": run.overlap_s / HOUR_S,
            "availability": run.availability,
            "cost": run.cost(shown.cost),
            "decisions": len(run.decisions),
            "hand_overs": [
                {
                    "ended": instant(h.ended_s),
                    "interruption_s": h.interruption_s,
                    "overlap_s": h.overlap_s,
                    "open": h.open,
                }
                for h in run.hand_overs
            ],
            "links": [
                {"submitted": instant(r.submitted_s), "started": instant(r.started_s), "ends": instant(r.ends_s)}
                for r in run.links
            ],
        }
        for (nodes, policy), run in shown.runs.items()
    ]
    return {
        "chains": chains,
        "jobs": shown.load.jobs,
        "nodes": shown.nodes,
        "utilisation": float(shown.load.busy.mean()) / shown.nodes,
        "begin": instant(shown.begin_s),
        "until": instant(shown.until_s),
        "interruption_cost": shown.cost.interruption,
        "overlap_cost": shown.cost.overlap,
        "discipline": shown.discipline,
        "seed": shown.seed,
        "report": out,
        "version": __version__,
        "command": _command(shown, out),
    }
