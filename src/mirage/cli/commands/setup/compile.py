"""``mirage compile``: compile the simulator before it is needed."""

from __future__ import annotations

import sys
import time

import click

from mirage.cli.options import CONTEXT, examples


@click.command(
    "compile",
    context_settings=CONTEXT,
    epilog=examples(
        "mirage compile                           everything, once after an installation",
        "mirage compile easy slurm                what these disciplines need",
        "mirage compile --check                   is there anything left to compile?",
    ),
)
@click.argument("disciplines", nargs=-1)
@click.option("--processes", default=2, show_default=True, type=click.IntRange(1), help="How many compile at once.")
@click.option("--check", is_flag=True, help="Compile nothing; exit with status 1 if there is something to compile.")
@click.pass_context
def compile_kernels(ctx: click.Context, disciplines: tuple[str, ...], processes: int, check: bool) -> None:
    """Compile what simulations, evaluations and the agent's forecasts need, and keep it in the cache.

    DISCIPLINES: easy, slurm, what-if ... By default all of them. Without this command, whatever needs a part first
    compiles it.
    """
    from mirage.provision.compile_ahead import are_compiled, compile_ahead, parts_named
    from mirage.sim.first_compile import told

    parts = parts_named(disciplines)
    if check:
        ready = are_compiled(parts)
        click.echo(f"{'compiled' if ready else 'not compiled'}: {', '.join(parts)}")
        ctx.exit(0 if ready else 1)
    began_s = time.monotonic()
    label = "compiling, about a minute where nothing is yet"
    with click.progressbar(length=len(parts), label=label, file=sys.stderr, item_show_func=str) as bar:
        bar.update(0, "engine")
        with told(lambda kernel: None):
            for part in compile_ahead(parts, processes):
                bar.update(1, part)

    from mirage.sim.kernel.cache import kernel_folder

    click.echo(f"compiled in {time.monotonic() - began_s:.0f} s; kept in {kernel_folder()}")
