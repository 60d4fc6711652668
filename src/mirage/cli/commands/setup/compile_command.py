"""``mirage compile``: compile the simulator before it is needed."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import click

from mirage.cli.cli_context import check_login_node
from mirage.cli.options import CONTEXT, examples
from mirage.cli.values import COUNT
from mirage.errors import ConfigurationError, UnknownName

ROOMS = ("schedule", "dag")
"""Further simulators, by their commands: of GPU clusters, and of jobs made of stages."""


@click.command(
    "compile",
    context_settings=CONTEXT,
    epilog=examples(
        "mirage compile                           everything, once after an installation",
        "mirage compile easy slurm                the parts of these disciplines",
        "mirage compile schedule                  the parts of 'mirage schedule'",
        "mirage compile --check                   is anything left to compile?",
        "mirage compile --shared                  as an administrator, for all users of this installation",
    ),
)
@click.argument("parts", metavar="[PART]...", nargs=-1)
@click.option("--processes", default=2, show_default=True, type=COUNT, help="Number of parallel compilations.")
@click.option("--check", is_flag=True, help="Compile nothing; exit with status 1 if there is something to compile.")
@click.option("--shared", is_flag=True, help="Compile into the installation, where all its users find the result.")
@click.pass_context
def compile_kernels(ctx: click.Context, parts: tuple[str, ...], processes: int, check: bool, shared: bool) -> None:
    """Compile the kernels of simulations, evaluations and the agent's forecasts; cache them.

    PART: a discipline (easy, slurm ...), what-if, schedule or dag. By default everything. Without this command, a part
    is compiled when it is first needed. The cache is in ~/.cache/mirage/kernels, or where XDG_CACHE_HOME or
    NUMBA_CACHE_DIR say.
    """
    if shared:
        _compile_into_the_installation([*parts, "--processes", str(processes), *(["--check"] if check else [])])
    from mirage.kernel.cache import kernel_folder
    from mirage.kernel.compile_listener import compile_listener
    from mirage.provision.compile_simulator import are_compiled, compile_ahead

    wanted = _wanted(parts)
    for room in ROOMS:
        if room in wanted and (left_out := _room(room).left_out()):
            click.echo(f"{room}: without {left_out}", err=True)
    if check:
        missing = [part for part in wanted if not are_compiled([part], use_part)]
        click.echo(f"{'not compiled' if missing else 'compiled'}: {', '.join(missing or wanted)}")
        ctx.exit(1 if missing else 0)
    check_login_node("compile the simulator")
    if not _can_be_written(kernel_folder()) and not are_compiled(wanted, use_part):
        raise ConfigurationError(
            f"compiled kernels cannot be stored in {kernel_folder()}; set NUMBA_CACHE_DIR to another folder"
        )
    began_s = time.monotonic()
    label = "compiling, some minutes the first time"
    with click.progressbar(length=len(wanted), label=label, file=sys.stderr, item_show_func=str) as bar:
        bar.update(0, wanted[0])
        with compile_listener(lambda kernel: None):
            for part in compile_ahead(wanted, processes, use_part):
                bar.update(1, part)

    click.echo(f"compiled in {time.monotonic() - began_s:.0f} s; cached in {kernel_folder()}")


def _can_be_written(folder: Path) -> bool:
    """Whether files can be written into a folder, which is made if it does not exist."""
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    return os.access(folder, os.W_OK)


def _compile_into_the_installation(words: list[str]) -> NoReturn:
    """Continues as the same command with the installation's folder as the cache.

    Raises:
        ConfigurationError: This user cannot write there.
    """
    from mirage.kernel.cache import shared_folder

    folder = shared_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"{folder} cannot be made: {error.strerror}; run this as the owner of the installation"
        ) from None
    if not os.access(folder, os.W_OK):
        raise ConfigurationError(f"{folder} cannot be written; run this as the owner of the installation")
    command = [sys.executable, "-m", "mirage", "compile", *words]
    os.execve(sys.executable, command, {**os.environ, "NUMBA_CACHE_DIR": str(folder.parents[1])})


def use_part(part: str) -> None:
    """Runs each function of a part once, so that it is compiled."""
    from mirage.provision.compile_simulator import use

    if part in ROOMS:
        _room(part).use()
    else:
        use(part)


def _wanted(parts: Sequence[str]) -> list[str]:
    """Returns the named parts, or all: the engine of chains first, then the slowest ones.

    Raises:
        UnknownName: There is no such part.
    """
    from mirage.provision.compile_simulator import FORECASTS, parts_named
    from mirage.sim.disciplines.discipline_registry import known_disciplines

    known = (*ROOMS, FORECASTS, *known_disciplines())
    for part in parts:
        if part not in known:
            raise UnknownName("part", part, known)
    rooms = [room for room in ROOMS if room in parts or not parts]
    others = [part for part in parts if part not in ROOMS]
    if parts and not others:
        return rooms
    engine, *rest = parts_named(others)
    return [engine, *rooms, *rest]


def _room(room: str) -> Any:
    return import_module(f"mirage.{room}.compile_{room}")
