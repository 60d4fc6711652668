"""Reports word by word: headings, figures and cells of data that can be checked by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mirage.chains.chain_evaluation import assess_chains
from mirage.errors import ConfigurationError
from mirage.extras import install
from mirage.policy.cost import Cost
from mirage.provision.chain_record import Decision
from mirage.provision.evaluation.policy_score import EvaluationRow
from mirage.report.pages.chain_evaluation_page import chain_evaluation_page, draw_chains
from mirage.report.pages.chain_page import chain_page
from mirage.report.pages.demo_page import demo_page
from mirage.report.pages.evaluation_page import draw_frontiers, evaluation_page, evaluation_picture, kind_of
from mirage.report.svg import svg_file
from tests.support.printed_text import page_words
from tests.support.report_samples import (
    CHAIN_PROVENANCE,
    DAY0,
    DECISIONS,
    FACTS,
    HOUR,
    MANY,
    PROVENANCE,
    RUN,
    chain_evaluation,
    demonstration,
    evaluation,
)

# -- a chain ------------------------------------------------------------------------------------------------


def as_record(found: Decision) -> dict[str, Any]:
    return {
        "time_s": found.now_s, "link": found.link + 1, "submits": found.submits, "reason": found.reason,
        "estimate": found.estimate, "observed": {"pending_nodes": 5.0},
    }  # fmt: skip


EVENTS = [(DAY0, 1, "submitted", "job 40 <now>"), (DAY0 + HOUR, 0, "paused", "it rains")]
LINK_KEY = [
    "held until the previous link ends",
    "waiting in the queue",
    "running",
    "remaining time, up to its limit",
    "interruption: no link runs",
    "overlap: two links run",
]


def test_a_chain() -> None:
    page = chain_page(RUN, {**FACTS, "why": "a & b"}, [as_record(d) for d in DECISIONS], EVENTS, "0.1.0")
    assert page_words(page) == [
        "# Chain train",
        "active: a & b; policy what-if; Mirage 0.1.0",
        *("alive", "85.71%", "of the time since the first start"),
        *("interruption", "4.0 h", "longest 4.0 h"),
        *("overlap", "2.0 h", "4.0 node-hours"),
        *("links", "3", "have started"),
        "## Links",
        "A row each; times are UTC.",
        *LINK_KEY,
        "## Hand-overs",
        "From the end of one job to the start of the next.",
        "| links | end (UTC) | interruption | overlap | overlap node-hours |",
        "| 2 → 3 | 2024-10-05 02:00 |  | <overlap>02:00:00 | 4.00 |",
        "| 1 → 2 | 2024-10-04 12:00 | <gap>04:00:00 |  |  |",
        "## Decisions",
        "Remaining time of the running link, expected wait of the next, and the choice with its reason.",
        "remaining time of the running link",
        "expected wait of the next link, median",
        "5 to 95 % of futures",
        "submits the next link",
        "expected cost of submitting now",
        "of waiting one step",
        "> 4 of 4 decisions",
        "| time (UTC) | link | choice | why | cost later | cost now | wait p05 | wait p50 | wait p95 | pending nodes",
        "| 2024-10-04 04:00 | 1 | wait | because | 1 | 2 | 01:00:00 | 02:00:00 | 05:33:20 | 5",
        "| 2024-10-04 08:00 | 1 | compete | because | 1 | 2 | 01:00:00 | 02:00:00 | 05:33:20 | 5",
        "| 2024-10-04 18:00 | 2 | wait | because |  |  |  |  |  | 5",
        "| 2024-10-04 20:00 | 2 | compete | because | – | 2 | 01:00:00 | 02:00:00 | ∞ | 5",
        "## Log",
        "All events.",
        "> 2 events",
        "| time (UTC) | link | what | detail",
        "| 2024-10-04 00:00 | 1 | submitted | job 40 <now>",
        "| 2024-10-04 01:00 |  | paused | it rains",
    ]


def test_a_chain_of_which_nothing_has_run() -> None:
    assert page_words(chain_page(replace(RUN, links=()), FACTS, [], [], "0.1.0")) == [
        "# Chain train",
        "active; policy what-if; Mirage 0.1.0",
        *("alive", "–", "of the time since the first start"),
        *("interruption", "0 s", "without a link"),
        *("overlap", "0 s", "0.0 node-hours"),
        *("links", "0", "have started"),
        "## Links",
        "None has been submitted yet.",
        "## Log",
        "All events.",
        "> 0 events",
        "| time (UTC) | link | what | detail",
    ]


def test_a_long_chain_is_drawn_twice() -> None:
    words = page_words(chain_page(MANY, FACTS, [], [], "0.1.0"))
    assert "The last 14, a row each; times are UTC." in words
    whole = words.index("## The whole life")
    assert words[whole + 1 : whole + 6] == [
        "From the first link on. Times are UTC.",
        "a link runs",
        "submitted, waiting in the queue",
        "interruption: no link runs",
        "overlap: two links run",
    ]
    assert words[whole + 6] == "## Hand-overs"
    assert words[whole + 9] == "| 39 → 40 | 2024-10-18 16:00 |  | <overlap>01:00:00 | 2.00 |"


@pytest.mark.parametrize(
    ("ends_s", "now_s", "interrupted", "note"),
    [
        (119, 300, "119 s", "longest 119 s"),
        (120, 300, "2 min", "longest 2 min"),
        (7199, 9000, "120 min", "longest 120 min"),
        (7200, 9000, "2.0 h", "longest 2.0 h"),
    ],
)
def test_spans_have_readable_units(ends_s: int, now_s: int, interrupted: str, note: str) -> None:
    first, second, *_ = RUN.links
    links = (replace(first, ends_s=DAY0 + 7200), replace(second, started_s=DAY0 + 7200 + ends_s, ends_s=DAY0 + 36_000))
    words = page_words(chain_page(replace(RUN, links=links, until_s=DAY0 + 36_000), FACTS, [], [], ""))
    place = words.index("interruption")
    assert words[place + 1 : place + 3] == [interrupted, note]


def test_an_open_gap_is_marked() -> None:
    waits = replace(RUN, links=(RUN.links[0], RUN.links[3]), until_s=DAY0 + 30 * HOUR)
    words = page_words(chain_page(waits, FACTS, [], [], ""))
    (row,) = [line for line in words if "still open" in line]
    assert row == "| 1 → ? | 2024-10-04 12:00 | <gap>18:00:00 |  |  | still open"


def test_of_the_decisions_to_wait_the_last_thirty_are_shown() -> None:
    many = [as_record(replace(DECISIONS[0], now_s=DAY0 + 60 * k, submits=k < 2)) for k in range(40)]
    words = page_words(chain_page(RUN, FACTS, many, [], ""))
    assert "> 32 of 40 decisions" in words
    times = [line[2:18] for line in words if "because" in line]
    assert times == [f"2024-10-04 00:{k:02d}" for k in (0, 1, *range(10, 40))]


# -- the demonstration --------------------------------------------------------------------------------------


def test_the_demonstration() -> None:
    demo = demonstration()
    short = {k: replace(run, decisions=run.decisions[34:38]) for k, run in demo.runs.items()}
    assert page_words(demo_page(replace(demo, runs=short), "mirage demo --seed 7", "0.1.0")) == [
        "# Two weeks of a service on a shared cluster",
        "A service that runs in batch jobs of 12 hours, on a simulated cluster of 76 nodes with the queue of an A100 "
        "partition. Between two jobs it is down while the next one waits, unless that is submitted in time.",
        *("interruption, reactive", "48.0 h", "8-node links, alive 85.7%"),
        *("interruption, auto", "6.0 h", "alive 98.2%"),
        *("overlap, auto", "6.0 h", "the price of being early"),
        *("95 % of jobs waited up to", "94.0 h", "1,234 jobs in two weeks"),
        "## A chain of 8-node links",
        "The same cluster and the same other users; only the time at which the next link is submitted differs.",
        "a link runs",
        "submitted, waiting in the queue",
        "interruption: no link runs",
        "overlap: two links run",
        "| policy | links | interruption | longest | overlap | overlap node-hours | alive | cost",
        "| reactive | 6 | <gap>48.0 h | 12.0 h | <good>0.0 h | 0.0 | 85.7% | 144.0",
        "| what-if | 4 | <gap>150.0 h | 150.0 h | <overlap>6.0 h | 48.0 | 55.4% | 456.0",
        "| auto | 7 | <gap>6.0 h | 6.0 h | <overlap>6.0 h | 48.0 | 98.2% | 24.0",
        "## Two of the hand-overs",
        "6 of 6 hand-overs of auto had no interruption.",
        "One that went well: link 4 was submitted 21.0 h before the end of link 3. It waited 18.0 h: both links held "
        "nodes for 180 min.",
        "## Why then?",
        "At every decision the visible queue is simulated forward many times: run times are drawn from the use of "
        "limits by similar jobs, new jobs from the recent past. The next link is submitted when waiting one more step "
        "is expected to cost more than submitting now.",
        "> All 4 decisions of auto for links of 8 nodes",
        "| time | link | left | median wait | 95 % wait | cost now | cost later | decision | because",
        "| Oct 5 18:00 | 1 | 06:00:00 | 06:00:00 | 12:00:00 | 0.33 | 5.67 | wait | because",
        "| Oct 5 19:00 | 1 | 05:00:00 | 07:00:00 | 14:00:00 | 0.17 | 5.83 | <good>submit | because",
        "| Oct 6 05:00 | 2 | 1-16:00:00 | 08:00:00 | 16:00:00 | 6.00 | 0.00 | wait | because",
        "| Oct 6 06:00 | 2 | 1-15:00:00 | 07:00:00 | 14:00:00 | 5.83 | 0.17 | wait | because",
        "## The cluster",
        "1,234 jobs of other users; median wait 49.5 h, 90 % up to 89.1 h, longest 99.0 h. On average 93% of the nodes "
        "are busy.",
        "## How this was made",
        "Workload: built-in model lonestar6-like, load 0.8, seed 7, three weeks of warm-up. Queue: slurm, Lonestar6's "
        "parameters. The chains are kept alive by the agent itself, on a simulated Slurm. An hour of interruption "
        "against an hour of overlap costs 3:1. The same command gives the same report. mirage evaluate compares "
        "policies over many hand-overs of a trace. Mirage 0.1.0.",
        "mirage demo --seed 7",
    ]


def test_the_link_before_the_longest_wait_is_explained() -> None:
    words = page_words(demo_page(demonstration(), "mirage demo", "0.1.0"))
    (heading,) = [line for line in words if line.startswith("## Why then?")]
    assert heading.endswith("of the 8-node chain nears its end")
    assert "> All 252 decisions of auto for links of 8 nodes" in words


def test_next_to_nothing_lost_is_good() -> None:
    demo = demonstration()
    run = demo.runs[8, "auto"]
    for lost_s, colour in ((179, "good"), (180, "gap")):
        first, second = run.links[:2]
        links = (first, replace(second, started_s=first.ends_s + lost_s))
        runs = {**demo.runs, (8, "auto"): replace(run, links=links, until_s=second.ends_s, decisions=())}
        words = page_words(demo_page(replace(demo, runs=runs), "", ""))
        (row,) = [line for line in words if line.startswith("| auto")]
        assert row.startswith(f"| auto | 2 | <{colour}>0.")


# -- an evaluation ------------------------------------------------------------------------------------------


def row(policy: str, load: str = "all", ratio: float | None = 5.0, **known: Any) -> EvaluationRow:
    figures = {
        "windows": 4, "interruption_h": 1.5, "overlap_h": 0.25, "interruption_median_h": 1.0, "overlap_median_h": 0.0,
        "interruption_p95_h": 4.26, "overlap_p95_h": 1.24, "lead_h": 6.5, "zero_share": 0.625, "cost": 7.75,
        "gap_closed": 0.345, "interruption_95": (1.0, 2.0), "overlap_95": (0.1, 0.4), "cost_95": (7.0, 8.5),
        "gap_closed_95": (0.3, 0.4),
    }  # fmt: skip
    return EvaluationRow(policy=policy, link_nodes=1, load=load, cost_ratio=ratio, **figures | known)


ROWS = (
    row("reactive", gap_closed=None, interruption_95=None, overlap_95=None, cost_95=None),
    row("what-if"),
    row("reactive", "light", cost=2.0),
)


def judged(*costs: Cost, rows: tuple[EvaluationRow, ...] = ROWS) -> Any:
    return replace(evaluation(costs, windows=4), rows=rows, intervals="by weeks")


def test_an_evaluation_under_one_cost() -> None:
    words = page_words(evaluation_page(judged(Cost(5, 1)), PROVENANCE))
    assert words[:9] == [
        "# Interruption against overlap",
        "jobs.csv under slurm on 76 nodes, 60 windows, 2024-10-04 to 2024-10-07. Cost in hours of overlap: 5 for an "
        "hour of interruption, 1 for one of overlap.",
        "## All loads, links of 1 node",
        "The grey line is every constant lead; a point below and left of it has lower means than any of them. Bars and "
        "brackets are 95 % intervals, where there are enough windows: where they overlap, the order may be chance.",
        "| policy | interruption, h | overlap, h | without interruption | mean cost, h | gap closed",
        "| reactive | 1.50 | 0.25 | 62% | 7.75 | -",
        "| what-if | 1.50 [1.00, 2.00] | 0.25 [0.10, 0.40] | 62% | 7.75 [7.00, 8.50] | 34% [30%, 40%]",
        "## Light load, links of 1 node",
        words[4],
    ]
    assert words[9] == "| reactive | 1.50 [1.00, 2.00] | 0.25 [0.10, 0.40] | 62% | 2.00 [7.00, 8.50] | 34% [30%, 40%]"
    assert [line for line in words if line.startswith("## ")][2:] == [
        "## Medium load, links of 1 node",
        "## Heavy load, links of 1 node",
        "## Against what-if, links of 1 node",
        "## How this was made",
    ]
    assert words[-2:] == [
        "Protocol warm, links of a newcomer, hand-over 1, seed 0, Mirage 0.1.0. Confidence intervals: by weeks.",
        "mirage evaluate data/jobs.csv --nodes 76",
    ]


def test_an_evaluation_under_several_costs() -> None:
    rows = (row("what-if"), row("what-if", ratio=None))
    words = page_words(evaluation_page(judged(Cost(5, 1), Cost(1, 2), Cost(1, 0), rows=rows), PROVENANCE))
    assert words[1].endswith("Cost of an hour of interruption to one of overlap: 5:1, 1:2 or 1:0.")
    assert words[3].endswith(
        "may be chance. A ratio at a point is the configured cost of an hour of interruption, in hours of overlap."
    )
    assert (
        words[4]
        == "| policy | cost ratio | interruption, h | overlap, h | without interruption | mean cost | gap closed"
    )
    assert words[5].startswith("| what-if | 5:1 | 1.50 [")
    assert words[6].startswith("| what-if | free | 1.50 [")


def test_costs_that_are_no_hours_of_overlap() -> None:
    words = page_words(evaluation_page(judged(Cost(6, 2), rows=()), PROVENANCE))
    assert words[1].endswith("Cost: 6 for an hour of interruption, 2 for one of overlap.")
    assert "| policy | interruption, h | overlap, h | without interruption | mean cost | gap closed" in words


def test_links_of_several_nodes_on_a_single_day() -> None:
    found = judged(Cost(1, 1), rows=())
    (trials,) = found.trials.values()
    words = page_words(evaluation_page(replace(found, trials={8: trials[:1]}), PROVENANCE))
    assert words[1].startswith("jobs.csv under slurm on 76 nodes, 60 windows, 2024-10-04. Cost")
    assert words[2] == "## All loads, links of 8 nodes"


def test_a_picture_names_its_source() -> None:
    svg = svg_file(evaluation_picture(judged(Cost(5, 1)), PROVENANCE))
    for words in (
        "Interruption against overlap", "jobs.csv under slurm on 76 nodes, 60 windows, 2024-10-04 to 2024-10-07",
        "Cost in hours of overlap: 5 for an hour of interruption, 1 for one of overlap.",
    ):  # fmt: skip
        assert words in svg


def test_an_evaluation_by_whole_chains(tmp_path: Any) -> None:
    found = chain_evaluation()
    page = chain_evaluation_page(found, CHAIN_PROVENANCE)
    assert page_words(page) == [
        "# Interruption of chains",
        "jobs.csv under slurm on 76 nodes, 4 windows from 2024-10-04. A chain of 14-00:00:00 in each, of links of a "
        "newcomer for 12:00:00, up to 3 waiting.",
        "## Links of 8 nodes, an hour of interruption costs 3 of overlap",
        "Means per chain. Intervals: 95 %, Student's t over windows; better, worse: also after a correction for the "
        "policies of the table (Benjamini and Hochberg).",
        "| policy | interruption, h | overlap, h | links | alive | cost | cost less reactive |",
        "| reactive | 50.0 | 0.0 | 28.0 | 85.1% | 150.00 [26.74, 273.26] |  |",
        "| auto | 12.5 | 1.0 | 28.0 | 96.3% | 38.50 [7.69, 69.31] | -111.50 [-203.94, -19.06] | better",
        "| oracle | 0.0 | 0.0 | 28.0 | 100.0% | 0.00 [0.00, 0.00] | -150.00 [-273.26, -26.74] |",
        "## How this was made",
        "Mirage 0.1.0.",
        "mirage evaluate data/jobs.csv --nodes 76 --chain-length 14d",
    ]
    single = page_words(chain_evaluation_page(assess_chains(found.chains, None), CHAIN_PROVENANCE))
    assert single[4] == "| policy | interruption, h | overlap, h | links | alive | cost"
    one = page_words(chain_evaluation_page(chain_evaluation(1), {**CHAIN_PROVENANCE, "windows": 1}))
    assert one[3] == "Means per chain.", "one window has no interval"
    unstarted = {key: tuple(replace(chain, started=0) for chain in its) for key, its in found.chains.items()}
    assert page_words(chain_evaluation_page(assess_chains(unstarted, None), CHAIN_PROVENANCE))[2].endswith(
        "; no link started in 4 windows: such a chain has no interruption and no cost"
    )
    for name, begin in (("a.svg", b"<svg"), ("a.html", page.encode()), ("a.png", b"\x89PNG")):
        draw_chains(found, str(tmp_path / name), CHAIN_PROVENANCE)
        assert (tmp_path / name).read_bytes().startswith(begin)


def test_kinds_of_files(tmp_path: Any) -> None:
    assert [kind_of(f"a.b{kind}") for kind in (".svg", ".HTML", ".png", ".pdf")] == [".svg", ".html", ".png", ".pdf"]
    with pytest.raises(ConfigurationError) as refused:
        kind_of("frontier.gif")
    assert str(refused.value) == "cannot draw into frontier.gif: its name must end in .svg, .html, .png, .pdf"
    found = judged(Cost(5, 1))
    for name, begin in (("a.svg", b"<svg"), ("a.html", b"<!DOCTYPE html>"), ("a.png", b"\x89PNG"), ("a.pdf", b"%PDF")):
        draw_frontiers(found, str(tmp_path / name), PROVENANCE)
        assert (tmp_path / name).read_bytes().startswith(begin)
    assert (tmp_path / "a.html").read_text(encoding="utf-8") == evaluation_page(found, PROVENANCE)
    assert (tmp_path / "a.svg").read_text(encoding="utf-8") == svg_file(evaluation_picture(found, PROVENANCE))


def test_a_bitmap_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "matplotlib" else object())
    assert kind_of("a.svg") == ".svg"
    with pytest.raises(ConfigurationError) as refused:
        kind_of("a.png")
    assert str(refused.value) == (
        f"a bitmap needs matplotlib, which is not installed; run: {install('plot')}, or draw into a .svg or .html file"
    )


def test_a_file_that_cannot_be_written(tmp_path: Any) -> None:
    path = tmp_path / "none" / "a.svg"
    with pytest.raises(ConfigurationError) as refused:
        draw_frontiers(judged(Cost(5, 1)), str(path), PROVENANCE)
    assert str(refused.value) == f"cannot write {path}: No such file or directory; name another place"
