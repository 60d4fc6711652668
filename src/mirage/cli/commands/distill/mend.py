"""``mirage distill mend``: the best one-line edit of a tree for each edge case."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mirage.atomic_file import write_output
from mirage.cli.commands.distill.distill_options import EpisodeOptions
from mirage.cli.commands.distill.tree_file import SHIPPED, path_of, read, tree_argument
from mirage.cli.options import CONTEXT, examples, json_output
from mirage.cli.output import check_output, checkpoint_of, resumable
from mirage.cli.values import WORDS
from mirage.errors import ConfigurationError
from mirage.version import __version__

if TYPE_CHECKING:
    from mirage.dag.mending.line_mending import MendingResult
    from mirage.dag.mending.mending_page import Case

ALL = "all"


@click.command(
    context_settings=CONTEXT,
    epilog=examples(
        "mirage distill mend --case large-job                      the tree that ships with Mirage",
        "mirage distill mend mine.txt --case gap-15,gap-75 -o mended",
        "mirage distill mend mine.txt --case all --profiles tpch_profiles.json.gz --report edge-cases.md",
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
    help="Edge cases, as for 'mirage dag compare --case'.",
)
@click.option(
    "--profiles", metavar="FILE", help="Measured TPC-H profiles (JSON, or .gz of it).  [default: built-in jobs]"
)
@click.option("--setting", metavar="N/JOBS", help="Executors and jobs of an episode.  [default: those of each case]")
@click.option("--seeds", default="1300-1323", show_default=True, metavar="LIST", help="Seeds to choose edits on.")
@click.option(
    "--report-seeds",
    default="400-447",
    show_default=True,
    metavar="LIST",
    help="Seeds to judge edits on; none of --seeds.",
)
@click.option("-o", "--out", metavar="DIR", help="Write the trees with helpful edits to DIR, as NAME.txt.")
@click.option("--report", "report_file", metavar="FILE", help="Write edits, times and diffs to FILE, as Markdown.")
@json_output
def mend(
    tree_file: str,
    cases: tuple[str, ...],
    profiles: str | None,
    setting: str | None,
    seeds: str,
    report_seeds: str,
    out: str | None,
    report_file: str | None,
    as_json: bool,
) -> None:
    """Find the best one-line edit of a tree for each edge case, and judge it on other seeds.

    Every threshold, every score and every number of the executor rule is moved by a few readable steps. The edit with
    the shortest mean time is chosen. It helps if the 95 % interval of its difference on the other seeds is below 0, and
    is reported in any case. With --report, a killed or interrupted command resumes after the last case when it is
    repeated.
    """
    from mirage.dag.setting import seeds_of
    from mirage.study.work_journal import WorkJournal

    options = _MendOptions(tree_file, cases, profiles, setting, seeds, report_seeds)
    if both := set(seeds_of(seeds)) & set(seeds_of(report_seeds)):
        raise ConfigurationError(
            f"the seed {min(both)} is in --seeds and in --report-seeds; an edit is judged on seeds that it was not "
            "chosen on"
        )
    text, _ = read(tree_file)
    names = _names(cases)
    played = [options.episodes(name) for name in names]
    if report_file is not None:
        check_output(report_file, path_of(tree_file), profiles)
    if out is not None:
        _make_folder(out)
        for name in names:
            check_output(Path(out) / f"{name}.txt", path_of(tree_file), profiles)
    journal = WorkJournal(None if report_file is None else checkpoint_of(report_file), _plan(text, options, played[0]))
    found: list[Case] = []
    with resumable(journal.path):
        for name, one in zip(names, played, strict=True):
            if name not in journal.finished:
                journal.store(**{name: _mended(text, one, report_seeds).to_json()})
            case, after = _case(text, options, one, journal.finished[name])
            found.append(case)
            if out is not None and case.mended.helps:
                write_output(Path(out) / f"{name}.txt", after)
            if not as_json:
                _print(case)
    if report_file is not None:
        write_output(report_file, _page(options, found, report_file))
    journal.remove()
    if as_json:
        click.echo(json.dumps(_report(options, found), indent=2))


@dataclass(frozen=True, slots=True)
class _MendOptions:
    """The options of the command."""

    tree_file: str
    cases: tuple[str, ...]
    profiles: str | None
    setting: str | None
    seeds: str
    report_seeds: str

    def episodes(self, case: str) -> EpisodeOptions:
        """Returns the episodes of a case on which an edit is chosen."""
        settings = None if self.setting is None else (self.setting,)
        return EpisodeOptions(self.profiles, settings, self.seeds, None, None, None, case)


def _names(cases: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the chosen cases, each once."""
    from mirage.dag.workload.edge_cases import EDGE_CASES, edge_case_of

    named = tuple(dict.fromkeys(name for name in cases if name != ALL))
    for name in named:
        edge_case_of(name)
    return tuple(EDGE_CASES) if ALL in cases else named


def _make_folder(out: str) -> None:
    """Creates the folder of edited trees."""
    try:
        Path(out).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"cannot write into {out}: {error.strerror}; name another folder") from error


def _mended(text: str, played: EpisodeOptions, report_seeds: str) -> MendingResult:
    """Returns the best edit for one case."""
    from mirage.dag.mending.line_mending import mended
    from mirage.report.terminal.progress import progress_bar

    choose_on, report_on = (replace(played, seeds=seeds).episodes()[0] for seeds in (played.seeds, report_seeds))
    with progress_bar(f"edits, {played.case}") as progress:
        return mended(text, choose_on, report_on, progress)


def _case(text: str, options: _MendOptions, played: EpisodeOptions, record: dict[str, Any]) -> tuple[Case, str]:
    """Returns a case with its edit, and the text of the edited tree."""
    from mirage.dag.mending.line_mending import mended_of
    from mirage.dag.mending.mending_page import Case
    from mirage.distill.editing import difference, edited

    best, name = mended_of(record), str(played.case)
    after = text if best.change is None else edited(text, [best.change], options.tree_file)[0]
    return Case(name, played.settings[0], best, difference(text, after, options.tree_file)), after


_CODE = ("mirage.dag.mending.line_mending", "mirage.dag.workload.edge_cases", "mirage.dag.setting")


def _plan(text: str, options: _MendOptions, played: EpisodeOptions) -> dict[str, object]:
    """Returns all that determines the edits, except the cases."""
    from mirage.dag.workload.templates import templates_digest
    from mirage.source_digest import source_digest

    return {
        "tree": sha256(text.encode()).hexdigest()[:16],
        "profiles": templates_digest(played.templates()),
        "setting": options.setting,
        "seeds": options.seeds,
        "report seeds": options.report_seeds,
        "version of the code": source_digest(_CODE)[:16],
    }


def _print(case: Case) -> None:
    """Prints one case on the terminal."""
    from mirage.dag.mending.mending_page import difference_text, verdict
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


def _page(options: _MendOptions, found: list[Case], report_file: str) -> str:
    """Returns the page, with the command that wrote it; its files are named without folders."""
    from mirage.dag.mending.mending_page import page

    tree = [] if options.tree_file == SHIPPED else [options.tree_file]
    words = ["mirage", "distill", "mend", *tree, "--case", ",".join(options.cases)]
    words += [] if options.profiles is None else ["--profiles", Path(options.profiles).name]
    words += [] if options.setting is None else ["--setting", options.setting]
    words += ["--seeds", options.seeds, "--report-seeds", options.report_seeds, "--report", Path(report_file).name]
    return page(
        "the tree that ships with Mirage" if options.tree_file == SHIPPED else options.tree_file,
        found,
        command=shlex.join(words),
        seeds=options.seeds,
        report_seeds=options.report_seeds,
        jobs="built-in jobs" if options.profiles is None else f"the profiles {Path(options.profiles).name}",
    )


def _report(options: _MendOptions, found: list[Case]) -> dict[str, Any]:
    """Returns the cases as JSON."""
    return {
        "tree": options.tree_file,
        "profiles": options.profiles,
        "seeds": options.seeds,
        "report_seeds": options.report_seeds,
        "cases": [
            {"case": one.name, "setting": one.setting, **one.mended.to_json(), "diff": one.diff} for one in found
        ],
        "version": __version__,
        "command": shlex.join(["mirage", *sys.argv[1:]]),
    }
