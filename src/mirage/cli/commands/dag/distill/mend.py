"""``mirage distill mend``: for each edge case the best edit of one line of a tree."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mirage import __version__
from mirage.cli.commands.dag.distill.options import EpisodeOptions
from mirage.cli.commands.dag.distill.tree_file import SHIPPED, read, tree_argument
from mirage.cli.options import CONTEXT, examples, json_output
from mirage.cli.output import check_output, checkpoint_of, resumable, write_output
from mirage.cli.values import WORDS
from mirage.errors import ConfigurationError

if TYPE_CHECKING:
    from mirage.dag.mending.mend import Mended
    from mirage.dag.mending.page import Case

ALL = "all"


@click.command(
    context_settings=CONTEXT,
    epilog=examples(
        "mirage distill mend --case large-job                      the tree that ships with Mirage",
        "mirage distill mend mine.txt --case gap-15,gap-75 -o mended",
        "mirage distill mend mine.txt --case all --profiles tpch_profiles.json.gz --page edge-cases.md",
    ),
)
@tree_argument
@click.option(
    "--case",
    "cases",
    type=WORDS,
    default=ALL,
    show_default=True,
    metavar="NAME,…",
    help="Edge cases, as 'mirage dag compare --case' knows them.",
)
@click.option(
    "--profiles", metavar="FILE", help="Measured TPC-H profiles (JSON, or .gz of it).  [default: built-in jobs]"
)
@click.option("--setting", metavar="N/JOBS", help="Executors and jobs of an episode.  [default: those of each case]")
@click.option("--seeds", default="1300-1323", show_default=True, metavar="LIST", help="Edits are chosen on these.")
@click.option(
    "--report-seeds", default="400-447", show_default=True, metavar="LIST", help="And judged on these; none is in both."
)
@click.option("-o", "--out", metavar="DIR", help="Write the edited tree of each case there, as NAME.txt.")
@click.option("--page", "page_file", metavar="FILE", help="Write edits, times and diffs there, as Markdown.")
@json_output
def mend(
    tree_file: str,
    cases: tuple[str, ...],
    profiles: str | None,
    setting: str | None,
    seeds: str,
    report_seeds: str,
    out: str | None,
    page_file: str | None,
    as_json: bool,
) -> None:
    """Find the best change of one line of a tree for each edge case, and tell what it brings on other seeds.

    Every threshold, score and number of the rule beside the tree is moved by a few readable steps. Chosen is the edit
    whose paired 95 % interval ends lowest; it helps where the interval on the other seeds is below 0, and is told in
    any case. With --page a command that was killed or interrupted goes on after the last case when it is given again.
    """
    from mirage.dag.mending.mend import mended_of
    from mirage.dag.mending.page import Case
    from mirage.dag.resumption import Kept
    from mirage.dag.setting import seeds_of
    from mirage.distill.editing import difference, edited

    names = _names(cases)
    if both := set(seeds_of(seeds)) & set(seeds_of(report_seeds)):
        raise ConfigurationError(
            f"the seed {min(both)} is in --seeds and in --report-seeds; an edit is judged on seeds that it was not "
            "chosen on"
        )
    text, _ = read(tree_file)
    if page_file is not None:
        check_output(page_file)
    settings = None if setting is None else (setting,)
    played = [EpisodeOptions(profiles, settings, seeds, None, None, None, name) for name in names]
    told_settings = [one.settings[0] for one in played]
    kept = Kept(
        None if page_file is None else checkpoint_of(page_file),
        _plan(text, played[0], setting, report_seeds),
    )
    found: list[Case] = []
    with resumable(kept.path):
        for name, one, where in zip(names, played, told_settings, strict=True):
            if name not in kept.finished:
                kept.keep(**{name: _mended(text, one, report_seeds).to_json()})
            best = mended_of(kept.finished[name])
            after = text if best.change is None else edited(text, [best.change], tree_file)[0]
            found.append(Case(name, where, best, difference(text, after, tree_file)))
            if out is not None and best.helps:
                _folder(out)
                write_output(Path(out) / f"{name}.txt", after)
            if not as_json:
                _print(found[-1])
    if page_file is not None:
        write_output(page_file, _page(tree_file, found, profiles, setting, cases, seeds, report_seeds, page_file))
    kept.remove()
    if as_json:
        told = {
            "tree": tree_file,
            "profiles": profiles,
            "seeds": seeds,
            "report_seeds": report_seeds,
            "cases": [
                {"case": one.name, "setting": one.setting, **one.mended.to_json(), "diff": one.diff} for one in found
            ],
            "version": __version__,
            "command": shlex.join(["mirage", *sys.argv[1:]]),
        }
        click.echo(json.dumps(told, indent=2))


def _names(cases: tuple[str, ...]) -> tuple[str, ...]:
    """The cases that are meant, each once."""
    from mirage.dag.workload.edge_cases import EDGE_CASES, edge_case_of

    if cases == (ALL,):
        return tuple(EDGE_CASES)
    for name in cases:
        edge_case_of(name)
    return tuple(dict.fromkeys(cases))


def _folder(out: str) -> None:
    """Make the folder of edited trees."""
    try:
        Path(out).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"cannot write into {out}: {error.strerror}; name another folder") from error


def _mended(text: str, played: EpisodeOptions, report_seeds: str) -> Mended:
    """The best edit for one case."""
    from mirage.dag.mending.mend import mended
    from mirage.report.terminal.evaluation import progress_bar

    choose_on, report_on = (replace(played, seeds=seeds).episodes()[0] for seeds in (played.seeds, report_seeds))
    with progress_bar(f"edits, {played.case}") as progress:
        return mended(text, choose_on, report_on, progress)


_CODE = ("mirage.dag.mending.mend", "mirage.dag.workload.edge_cases", "mirage.dag.setting")


def _plan(text: str, played: EpisodeOptions, setting: str | None, report_seeds: str) -> dict[str, object]:
    """All that decides which edits are found, but for the cases."""
    from mirage.dag.workload.digest import templates_digest
    from mirage.source_digest import source_digest

    return {
        "tree": sha256(text.encode()).hexdigest()[:16],
        "profiles": templates_digest(played.templates()),
        "setting": setting,
        "seeds": played.seeds,
        "report seeds": report_seeds,
        "version of the code": source_digest(_CODE)[:16],
    }


def _print(case: Case) -> None:
    """Tell one case on the terminal."""
    from mirage.dag.mending.page import difference_text, verdict
    from mirage.dag.workload.edge_cases import edge_case_of

    about = edge_case_of(case.name).about
    click.echo(f"{case.name}: {about}, at {case.setting}; {case.mended.tried} edits tried")
    if case.mended.change is not None and case.mended.reported is not None:
        click.echo(f"  {case.mended.change}")
        effect = case.mended.reported
        for what, one in (("mean time from arrival to end", effect.mean_jct), ("makespan", effect.makespan)):
            click.echo(
                f"  {what} {one.before_s:,.1f} s, after {one.after_s:,.1f} s: {difference_text(one)}, "
                f"sooner on {one.better_seeds} of {one.seeds} seeds"
            )
    click.echo(f"  {verdict(case.mended)}\n{case.diff}")


def _page(
    tree_file: str,
    found: list[Case],
    profiles: str | None,
    setting: str | None,
    cases: tuple[str, ...],
    seeds: str,
    report_seeds: str,
    page_file: str,
) -> str:
    """The page, with the command that wrote it, in which files have no folders."""
    from mirage.dag.mending.page import page

    words = ["mirage", "distill", "mend", *([] if tree_file == SHIPPED else [tree_file]), "--case", ",".join(cases)]
    for option, value in (("--profiles", profiles), ("--setting", setting)):
        words += [] if value is None else [option, Path(value).name if option == "--profiles" else value]
    words += ["--seeds", seeds, "--report-seeds", report_seeds, "--page", Path(page_file).name]
    return page(
        "the tree that ships with Mirage" if tree_file == SHIPPED else tree_file,
        found,
        command=shlex.join(words),
        seeds=seeds,
        report_seeds=report_seeds,
        jobs="built-in jobs" if profiles is None else f"the profiles {Path(profiles).name}",
    )
