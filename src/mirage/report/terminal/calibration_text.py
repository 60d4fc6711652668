"""Calibration on the terminal: facts with their sources, and the effect of mechanisms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rich.console import Console
from rich.text import Text

from mirage.calibration.calibration_result import Calibration
from mirage.calibration.fidelity.judge_fidelity import Fidelity
from mirage.calibration.held_back import HeldBackEffect
from mirage.calibration.inferred.capacity import outages, ran
from mirage.calibration.inferred.think_times import ThinkTimes
from mirage.calibration.inferred.user_job_limit import user_job_limit
from mirage.calibration.mechanism_shares import ALL, HELD, PLAIN, MechanismFidelity, WaitCauseShares
from mirage.calibration.mechanisms import NAMES, Mechanisms
from mirage.calibration.wait_causes import LIMIT, NODES, ORDER, UNEXPLAINED
from mirage.duration import HOUR_S, MINUTE_S, UNLIMITED_S, format_duration
from mirage.report.terminal.console_table import plain_console, print_table
from mirage.report.terminal.fidelity_text import class_table

DECLARED, RECORDED, INFERRED, FITTED, HELD_BACK = "declared", "recorded", "inferred", "fitted", "held back"

_IN_WORDS = (
    "dip_s",
    "recorded",
    "age",
    "fairshare",
    "size",
    "wfp",
    "shutdowns",
    "user_jobs",
    "turnover_s",
    "think_time_s",
)
"""Mechanisms with their own sentences here; others are listed by name and value."""


class Fact(NamedTuple):
    """A fact: its subject, the finding, and its source."""

    name: str
    found: str
    known: str


def facts(found: Calibration) -> Iterator[Fact]:
    """Yields the findings in the order of the report."""
    yield Fact("scheduler", f"parameters from {found.declared.by}", DECLARED)
    yield from _nodes(found)
    yield from _limits(found)
    yield from _priorities(found)
    best = found.best
    if best.turnover_s:
        yield Fact("between two jobs", f"a node needs {best.turnover_s} s", FITTED)
    yield Fact(
        "users", f"{reaction_words(found.users)}; {'used' if best.think_time_s else 'unused'} in replays", INFERRED
    )
    for name in NAMES:
        value = getattr(best, name)
        if name not in _IN_WORDS and value != getattr(Mechanisms(), name):
            yield Fact(mechanism_words(name), _plain(name, value), FITTED)
    for effect in found.held_back:
        if effect.left_out:
            yield Fact("left out", held_back_words(effect), HELD_BACK)
    jobs = found.fitted.within(found.site.jobs)
    never = int((~ran(jobs)).sum())
    if never:
        words = f"{never:,} of {len(jobs):,} jobs were cancelled while they waited: replayed, but not compared"
        yield Fact("cancelled", words, RECORDED)


def fact_words(fact: Fact) -> str:
    """Formats a fact on one line."""
    return f"{fact.name}: {fact.found} ({fact.known})"


def reaction_words(users: ThinkTimes) -> str:
    """Describes the number of jobs that follow another."""
    return (
        f"{users.share:.0%} of jobs ({users.answer:,} of {users.jobs:,}) follow a start or an end of the same user's "
        f"within {users.longest_s // 60} minutes, {users.by_chance:.0%} by chance"
    )


def mechanism_words(name: str) -> str:
    """Names a mechanism without its own text, such as ``turnover`` for ``turnover_s``."""
    return name.removesuffix("_s").replace("_", " ")


def held_back_words(effect: HeldBackEffect) -> str:
    """Describes the effect of a mechanism on held-back slices."""
    slices = "slice" if effect.slices == 1 else f"{effect.slices} slices"
    if effect.mape_with is None or effect.mape_without is None:
        figures = (
            f"error and 1 - rank correlation add up to {effect.error_with:.2f}, {effect.error_without:.2f} without"
        )
    else:
        figures = (
            f"the moving average is off by {effect.mape_with:.1%}, {effect.mape_without:.1%} without; with "
            f"1 - rank correlation added {effect.error_with:.2f}, {effect.error_without:.2f} without"
        )
    return f"{_MECHANISMS.get(effect.name, mechanism_words(effect.name))}: on the {slices} held back {figures}"


def survival_words(found: Calibration) -> str:
    """Describes the mechanisms that held-back slices exclude."""
    if not found.held_back:
        return (
            "No slice was held back, because the fitted one spans less than four weeks, or nothing was fitted: a "
            "mechanism may fit accidents of its slice."
        )
    left = [_MECHANISMS.get(one.name, mechanism_words(one.name)) for one in found.held_back if one.left_out]
    chosen = f"Left out, because held-back parts of the fitted slice were closer without: {', '.join(left)}."
    return chosen if left else "Every mechanism made held-back parts of the fitted slice closer, or no worse."


def judged_worse(found: Calibration) -> list[str]:
    """Describes the mechanisms that made the judged slice worse, one sentence each."""
    whole = found.whole.judged.moving_average.mape
    sentences = []
    for row in found.rows:
        mape = row.judged.moving_average.mape
        if row.name in NAMES and whole is not None and mape is not None and whole - mape > WORSE:
            name = _MECHANISMS.get(row.name, mechanism_words(row.name))
            sentences.append(
                f"On the judged slice, {name} made replays worse: error {whole:.1%} with it, {mape:.1%} without it. "
                "Held-back parts of the fitted slice did not show this."
            )
    return sentences


def _plain(name: str, value: object) -> str:
    if name.endswith("_s") and isinstance(value, int):
        return format_duration(value)
    return "yes" if value is True else f"{value:,}" if isinstance(value, int | float) else str(value)


def _nodes(found: Calibration) -> Iterator[Fact]:
    site, best = found.site, found.best
    yield Fact("usual capacity", f"{site.nodes:,} nodes, the number that lasted longest", INFERRED)
    if best.shutdowns:
        known = sum(one.known for one in site.shutdowns)
        hours = sum(one.end_s - one.start_s for one in site.shutdowns) / HOUR_S
        words = f"{len(site.shutdowns)}, {hours:,.0f} hours in total; {known} of them known in advance"
        yield Fact("shutdowns", words, INFERRED)
    if best.dip_s is None:
        yield Fact("nodes over time", "constant", FITTED)
        return
    capacity = site.capacity(best)
    low, high = int(capacity.nodes.min()), int(capacity.nodes.max())
    dips = format_duration(best.dip_s)
    yield Fact("nodes over time", f"{low:,} to {high:,}; dips of nodes in use up to {dips} filled in", INFERRED)
    gone = outages(site.jobs, capacity.times_s, capacity.nodes)
    hours = sum(one.end_s - one.start_s for one in gone) / HOUR_S
    yield Fact("outages", f"{len(gone)}, {hours:,.0f} hours in total" if gone else "none", INFERRED)


def _limits(found: Calibration) -> Iterator[Fact]:
    if found.declared.qos is not None:
        for limit in found.declared.qos.limits:
            yield Fact("limit", f"{limit}, from {found.declared.qos_by}", DECLARED)
        if not found.declared.qos.limits:
            yield Fact("limit", f"none in {found.declared.qos_by}", DECLARED)
    for limit in found.site.age_limits:
        yield Fact("limit", f"{limit}, from {found.declared.associations_by}", DECLARED)
    if found.site.declares_user_jobs:
        return
    user_limit = user_job_limit(found.fitted.within(found.site.jobs))
    if user_limit is None:
        yield Fact("limit of users", "none: there is no plateau of running jobs", INFERRED)
        return
    hours = f"{user_limit.hours:,.0f} hours in total"
    plateau = f"{user_limit.users:,} users reached it while more of their jobs waited, for {hours}"
    if found.best.user_jobs is None:
        words = f"a plateau at {user_limit.most} running jobs ({plateau}), but replays without a limit come closer"
    else:
        words = f"a user runs at most {found.best.user_jobs} jobs at once; {plateau}"
    yield Fact("limit of users", words, INFERRED)


def _priorities(found: Calibration) -> Iterator[Fact]:
    best, settings = found.best, found.site.settings
    if (wfp := best.wfp) is not None:
        longest = "" if wfp.longest_s >= UNLIMITED_S else f", limits of at most {format_duration(wfp.longest_s)}"
        words = f"by WFP: nodes^{wfp.size:g} × wait^{wfp.wait:g} / limit^{wfp.limit:g}{longest}"
        yield Fact("priorities", words, FITTED)
        return
    if best.recorded:
        yield Fact("priorities", "those recorded at submission, except for age", RECORDED)
    else:
        yield Fact("priorities", "computed", FITTED)
    yield Fact("age", f"waiting {format_duration(round(settings.max_age_s))} adds {best.age:,.0f}", FITTED)
    if best.fairshare:
        yield Fact("fair-share", f"weight {best.fairshare:,.0f}", FITTED)
    if best.size:
        of_what = "smallness" if best.size < 0 else "size"
        yield Fact("job size", f"weight {abs(best.size):,.0f} of the job's {of_what}", FITTED)


WORSE = 0.02
"""A mechanism is reported if it increases the error of the judged slice by more than this."""

_MECHANISMS = {
    "dip_s": "capacity over time",
    "recorded": "recorded priorities",
    "age": "age",
    "fairshare": "fair-share",
    "size": "job size",
    "wfp": "WFP",
    "shutdowns": "shutdowns",
    "user_jobs": "the limit of users",
    "turnover_s": "time between jobs",
    "think_time_s": "think times",
}
_WORDS = {
    PLAIN: "nothing fitted",
    ALL: "all mechanisms",
    **{name: f"without {words}" for name, words in _MECHANISMS.items()},
    HELD: "all, and unexplained holds (a bound)",
}
CAUSES = {
    NODES: "fewer nodes were idle than it needed",
    LIMIT: "its user was at the limit of running jobs",
    ORDER: "idle nodes were reserved for a job of higher priority",
    UNEXPLAINED: "no cause visible in accounts",
}
"""Causes of waits, as text."""


def print_calibration(found: Calibration, console: Console | None = None) -> None:
    """Prints the fitted mechanisms and the fidelity without each of them.

    Args:
        found: The calibration.
        console: By default standard output.
    """
    console = console or plain_console()
    console.print(Text.assemble("the cluster of ", (found.trace, "bold")))
    for fact in facts(found):
        console.print(Text(f"  {fact_words(fact)}"), soft_wrap=not console.is_terminal)
    console.print()
    head = ["", "error", "rank corr.", "error", "rank corr.", "mean wait", "recorded"]
    console.print(Text("fitted slice (error, rank corr.), then the judged slice", "dim"))
    print_table(console, head, [share_row(row) for row in found.rows])
    for sentence in (survival_words(found), *judged_worse(found)):
        console.print(Text(sentence), soft_wrap=not console.is_terminal)
    console.print()
    console.print(Text("all mechanisms, on the judged slice: waits by class", "dim"))
    print_table(console, *class_table(found.whole.judged))
    console.print()
    console.print(
        Text("error: of the mean wait over two weeks; rank corr.: of single jobs' waits, with its 95 % interval", "dim")
    )
    console.print()
    console.print(Text("causes of waits, hour by hour: fitted slice, then the judged slice", "dim"))
    heads = ["a job waited as", "recorded", "replayed", "recorded", "replayed"]
    print_table(console, heads, list(wait_rows(found.waited)))
    floor = found.waited[1].unexplained_moving_average
    if floor is not None:
        console.print()
        console.print(
            f"{floor:.0%} of the moving average of waits after the fit has no explanation visible in accounts."
        )


def wait_rows(waited: tuple[WaitCauseShares, WaitCauseShares]) -> Iterator[list[str]]:
    """Yields causes of waits with their shares on both slices, recorded and replayed."""
    for cause, words in CAUSES.items():
        yield [words, *(f"{shares[cause]:.0%}" for found in waited for shares in (found.recorded, found.replayed))]


def share_words(row: MechanismFidelity) -> str:
    """Names a choice of mechanisms; one without its own text gets its identifier."""
    return _WORDS.get(row.name, f"without {mechanism_words(row.name)}")


def share_row(row: MechanismFidelity) -> list[str]:
    """Returns a choice of mechanisms and its fidelity on both slices."""
    means_s = (row.judged.simulated_wait_s.mean, row.judged.recorded_wait_s.mean)
    return [share_words(row), *_figures(row.fitted), *_figures(row.judged), *map(hours_words, means_s)]


def hours_words(wait_s: float) -> str:
    """Formats a wait in hours, a short one in minutes."""
    return f"{wait_s / HOUR_S:.2f} h" if wait_s >= HOUR_S else f"{wait_s / MINUTE_S:.1f} min"


def _figures(found: Fidelity) -> tuple[str, str]:
    off, order = found.moving_average.mape, found.rank_correlation
    bounds = "" if order.interval is None else f" ({order.interval[0]:.2f}..{order.interval[1]:.2f})"
    return (
        "-" if off is None else f"{off:.1%}",
        "-" if order.value is None else f"{order.value:.2f}{bounds}",
    )
