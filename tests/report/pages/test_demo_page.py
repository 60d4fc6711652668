"""The report of the demonstration: its figures, and the number of drawn links."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from mirage.provision.chain_record import ChainRun
from mirage.report.charts.chain_charts import chain_chart
from mirage.report.charts.decision_charts import decision_chart, link_to_explain
from mirage.report.pages.demo_page import demo_page, load_chart
from mirage.report.svg import svg_of
from tests.support.page_markup import classes, headings, paragraphs, tables, tiles
from tests.support.picture_reading import readings, texts_of
from tests.support.report_samples import DAY0, HOUR, decision, demonstration, record

DEMO = demonstration()
PAGE = demo_page(DEMO, "mirage demo --seed <7>", "0.1.0")


def test_the_tiles_state_what_was_lost_and_its_cost() -> None:
    assert tiles(PAGE) == [
        ("interruption, reactive", "48.0 h", "8-node links, alive 85.7%"),
        ("interruption, auto", "6.0 h", "alive 98.2%"),
        ("overlap, auto", "6.0 h", "the price of being early"),
        ("95 % of jobs waited up to", "94.0 h", "1,234 jobs in two weeks"),
    ]


def test_the_table_compares_the_policies() -> None:
    policies, decisions = tables(PAGE)
    assert policies == [
        ["policy", "links", "interruption", "longest", "overlap", "overlap node-hours", "alive", "cost"],
        ["reactive", "6", "48.0 h", "12.0 h", "0.0 h", "0.0", "85.7%", "144.0"],
        ["what-if", "4", "150.0 h", "150.0 h", "6.0 h", "48.0", "55.4%", "456.0"],
        ["auto", "7", "6.0 h", "6.0 h", "6.0 h", "48.0", "98.2%", "24.0"],
    ]
    assert [[row[2], row[4]] for row in classes(PAGE)[:3]] == [["n gap", "n good"], *[["n gap", "n overlap"]] * 2]
    assert decisions[:2] == [
        ["time", "link", "left", "median wait", "95 % wait", "cost now", "cost later", "decision", "because"],
        ["Oct 4 08:00", "1", "1-16:00:00", "08:00:00", "16:00:00", "6.00", "0.00", "wait", "because"],
    ]
    assert decisions[36] == [
        "Oct 5 19:00", "1", "05:00:00", "07:00:00", "14:00:00", "0.17", "5.83", "submit", "because"
    ]  # fmt: skip
    assert len(decisions) == 1 + 7 * 36
    assert classes(PAGE)[3 + 35][7] == "n good"


def test_the_table_counts_the_links_that_the_chart_draws() -> None:
    for (_, policy), run in DEMO.runs.items():
        drawn = len(re.findall(r'<rect[^>]*class="link-[ab]"', svg_of(chain_chart({policy: run}))))
        (row,) = [row for row in tables(PAGE)[0] if row[0] == policy]
        waiting = sum(link.started_s < 0 for link in run.links)
        assert row[1] == str(drawn) == str(len(run.links) - waiting), "a link that waits is neither drawn nor counted"


def test_a_link_that_starts_at_the_horizon_is_drawn_and_counted() -> None:
    run = DEMO.runs[8, "reactive"]
    late = replace(run, links=(*run.links[:-1], record(6, 330, 336, 384)))
    after = replace(run, links=(*run.links[:-1], record(6, 330, 337, 385)))
    for one, count in ((late, 7), (after, 6)):
        assert len(one.started) == count
        assert len(re.findall(r'<rect[^>]*class="link-[ab]"', svg_of(chain_chart({"reactive": one})))) == count


@pytest.mark.parametrize(
    ("gap_s", "lost", "twice"),
    [(179, "good", "good"), (180, "gap", "good"), (-179, "good", "good"), (-180, "good", "overlap")],
)
def test_a_loss_too_short_to_speak_of_is_good(gap_s: int, lost: str, twice: str) -> None:
    links = (record(0, 0, 0, 48), replace(record(1, 40, 48, 96), started_s=DAY0 + 48 * HOUR + gap_s))
    run = replace(DEMO.runs[8, "reactive"], links=links, until_s=DAY0 + 90 * HOUR)
    page = demo_page(replace(DEMO, runs={**DEMO.runs, (8, "reactive"): run}), "mirage demo", "0.1.0")
    assert [classes(page)[0][k] for k in (2, 4)] == [f"n {lost}", f"n {twice}"]


def test_a_decision_without_estimates_leaves_their_cells_empty() -> None:
    blank = replace(decision(5.25, 1, 2.5, False, wait_p50_s=60.0), reason="plenty-of-time")
    run = replace(DEMO.runs[8, "auto"], decisions=(blank,))
    page = demo_page(replace(DEMO, runs={**DEMO.runs, (8, "auto"): run}), "mirage demo", "0.1.0")
    assert tables(page)[1][1] == ["Oct 4 05:15", "2", "02:30:00", "00:01:00", "", "", "", "wait", "plenty-of-time"]


def test_the_words_describe_what_was_done() -> None:
    assert headings(PAGE) == [
        "A chain of 8-node links", "Two of the hand-overs", "Why then? Link 3 of the 8-node chain nears its end",
        "The cluster", "How this was made",
    ]  # fmt: skip
    assert paragraphs(PAGE) == [
        "A service that runs in batch jobs of 12 hours, on a simulated cluster of 76 nodes with the queue of an A100 "
        "partition. Between two jobs it is down while the next one waits, unless that is submitted in time.",
        "The same cluster and the same other users; only the time at which the next link is submitted differs.",
        "6 of 6 hand-overs of auto had no interruption.",
        "One that went well: link 4 was submitted 21.0 h before the end of link 3, for an expected wait of 7.0 h (90 % "
        "of futures: 3.5 h to 14.0 h). It waited 18.0 h: both links held nodes for 180 min.",
        "At every decision the visible queue is simulated forward many times: run times are drawn from the use of "
        "limits by similar jobs, new jobs from the recent past. The next link is submitted when waiting one more step "
        "is expected to cost more than submitting now.",
        "1,234 jobs of other users; median wait 49.5 h, 90 % up to 89.1 h, longest 99.0 h. On average 93% of the nodes "
        "are busy.",
        "Workload: built-in model lonestar6-like, load 0.8, seed 7, three weeks of warm-up. Queue: slurm, Lonestar6's "
        "parameters. The chains are kept alive by the agent itself, on a simulated Slurm. An hour of interruption "
        "against an hour of overlap costs 3:1. The same command gives the same report. mirage evaluate compares "
        "policies over many hand-overs of a trace. Mirage 0.1.0.",
    ]
    assert "<title>Two weeks of a service on a shared cluster</title>" in PAGE
    assert "<pre>mirage demo --seed &lt;7&gt;</pre>" in PAGE
    assert "All 252 decisions of auto for links of 8 nodes" in PAGE


def paragraphs_with(run: ChainRun) -> list[str]:
    """The paragraphs of the page with another run of ``auto``."""
    return paragraphs(demo_page(replace(DEMO, runs={**DEMO.runs, (8, "auto"): run}), "mirage demo", "0.1.0"))


def test_a_hand_over_with_an_interruption_is_described() -> None:
    described = paragraphs_with(DEMO.runs[8, "reactive"])
    assert "2 of 5 hand-overs of auto had no interruption." in described
    assert (
        "One that did not: link 2 was submitted at the end of link 1. It waited 12.0 h: the service was down for 12.0 "
        "h."
    ) in described
    assert not any("No policy avoids the first" in one for one in described), "12 hours are less than a job may run"


def test_interruptions_after_waits_beyond_the_limit_are_named() -> None:
    links = (record(0, 0, 0, 48), record(1, 40, 60, 108), record(2, 60, 109, 157))
    described = paragraphs_with(replace(DEMO.runs[8, "auto"], links=links, until_s=DAY0 + 140 * HOUR, decisions=()))
    assert (
        "1.0 h of the interruption came after waits of more than 48.0 h, longer than a job may run. No policy avoids "
        "the first of such waits; a longer limit or fewer nodes may."
    ) in described


def test_a_hand_over_in_the_same_minute_is_described() -> None:
    links = (record(0, 0, 0, 48), record(1, 40, 48, 96))
    described = paragraphs_with(replace(DEMO.runs[8, "auto"], links=links, until_s=DAY0 + 90 * HOUR, decisions=()))
    assert (
        "One that went well: link 2 was submitted 8.0 h before the end of link 1. It waited 8.0 h: it started when "
        "link 1 ended."
    ) in described


def test_without_an_estimate_there_is_no_picture_of_one() -> None:
    blind = {key: replace(run, decisions=()) for key, run in DEMO.runs.items()}
    page = demo_page(replace(DEMO, runs=blind), "mirage demo", "0.1.0")
    assert "Why then?" in headings(page)
    assert page.count('class="place"') == 2
    assert PAGE.count('class="place"') == 3


def test_a_tail_that_is_cut_off_is_marked_with_its_height() -> None:
    run = DEMO.runs[8, "auto"]
    link = link_to_explain(run)
    assert link == 2
    svg = svg_of(decision_chart(run, link))
    assert svg.count('class="cut"') == 1
    assert ">up to 68 h<" in svg
    assert "It waited 18.0 h." in svg


def test_busy_nodes_and_the_queue_share_an_axis_of_dates() -> None:
    load = replace(DEMO.load, time_s=DAY0 + np.array([0, 48, 96]) * HOUR, busy=np.array([60, 76, 20]),
                   queued=np.array([0, 235, 40]))  # fmt: skip
    picture = load_chart(load, 76, DAY0 + 240 * HOUR, 700)
    busy, queue = readings(picture, 2024)
    (nodes,), (waiting,) = busy.curves("edge"), queue.curves("queue")

    def hours(points: list[tuple[float, float]]) -> list[tuple[int, int]]:
        return [(round((at_s - DAY0) / HOUR), round(value)) for at_s, value in points]

    assert hours(nodes) == [(0, 60), (48, 60), (48, 76), (96, 76), (96, 20), (240, 20)]
    assert hours(waiting) == [(0, 0), (48, 0), (48, 235), (96, 235), (96, 40), (240, 40)]
    assert [len(frame.shapes(area)[0]) for frame, area in ((busy, "area"), (queue, "queue-area"))] == [8, 8]
    assert busy.levels("limit") == [76]
    assert (busy.at_y(busy.top), queue.at_y(queue.top)) == pytest.approx((76 * 1.05, 235 * 1.05))
    assert (busy.below, queue.below[:2]) == ([], ["Oct 4", "Oct 5"])
    words = texts_of(picture)
    assert [word for word in words if "nodes" in word] == ["busy nodes", "76 nodes", "nodes requested by waiting jobs"]
    assert picture.description == "Busy nodes: mean 52 of 76. Queue: mean 92 nodes."
    empty = load_chart(replace(load, queued=np.zeros(3)), 76, DAY0 + 240 * HOUR, 700)
    _, queue = readings(empty, 2024)
    assert queue.at_y(queue.top) == pytest.approx(1.05)
