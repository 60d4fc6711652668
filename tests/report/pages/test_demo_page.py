"""The report of the demonstration: every figure where it belongs, and as many links as are drawn."""

from __future__ import annotations

import re
from dataclasses import replace

from markup import classes, headings, paragraphs, tables, tiles
from samples import DAY0, HOUR, demonstration, record

from mirage.report.charts.chain import chain_chart
from mirage.report.charts.decision import decision_chart, telling_link
from mirage.report.pages.demo import demo_page

DEMO = demonstration()
PAGE = demo_page(DEMO, "mirage demo --seed <7>", "0.1.0")


def test_the_tiles_say_what_was_lost_and_what_it_cost() -> None:
    assert tiles(PAGE) == [
        ("interrupted, reactive", "48.0 h", "8-node links, alive 85.7%"),
        ("interrupted, what-if", "6.0 h", "alive 98.2%"),
        ("held twice, what-if", "6.0 h", "the price of being early"),
        ("95 % of jobs waited up to", "94.0 h", "1,234 jobs in two weeks"),
    ]


def test_the_table_compares_the_policies() -> None:
    policies, decisions = tables(PAGE)
    assert policies == [
        ["policy", "links", "interrupted", "longest", "held twice", "node-hours twice", "alive", "cost"],
        ["reactive", "6", "48.0 h", "12.0 h", "0.0 h", "0.0", "85.7%", "144.0"],
        ["what-if", "7", "6.0 h", "6.0 h", "6.0 h", "48.0", "98.2%", "24.0"],
    ]
    assert [[row[2], row[4]] for row in classes(PAGE)[:2]] == [["n gap", "n good"], ["n gap", "n overlap"]]
    assert decisions[:2] == [
        ["time", "link", "left", "median wait", "95 % wait", "cost now", "cost later", "says", "because"],
        ["Oct 4 08:00", "1", "1-16:00:00", "08:00:00", "16:00:00", "6.00", "0.00", "wait", "because"],
    ]
    assert decisions[36] == [
        "Oct 5 19:00", "1", "05:00:00", "07:00:00", "14:00:00", "0.17", "5.83", "submit", "because"
    ]  # fmt: skip
    assert len(decisions) == 1 + 7 * 36
    assert classes(PAGE)[2 + 35][7] == "n good"


def test_the_table_counts_the_links_that_the_chart_draws() -> None:
    for (_, policy), run in DEMO.runs.items():
        drawn = len(re.findall(r'<rect[^>]*class="link-[ab]"', chain_chart({policy: run})))
        (row,) = [row for row in tables(PAGE)[0] if row[0] == policy]
        assert row[1] == str(drawn) == str(len(run.links) - 1), "the last link waits, and is neither drawn nor counted"


def test_a_link_that_starts_at_the_horizon_is_drawn_and_counted() -> None:
    run = DEMO.runs[8, "reactive"]
    late = replace(run, links=(*run.links[:-1], record(6, 330, 336, 384)))
    after = replace(run, links=(*run.links[:-1], record(6, 330, 337, 385)))
    for one, count in ((late, 7), (after, 6)):
        assert len(one.started) == count
        assert len(re.findall(r'<rect[^>]*class="link-[ab]"', chain_chart({"reactive": one}))) == count


def test_a_loss_too_short_to_speak_of_is_good() -> None:
    links = (record(0, 0, 0, 48), replace(record(1, 48, 48, 96), started_s=DAY0 + 48 * HOUR + 179))
    lucky = replace(DEMO.runs[8, "reactive"], links=links, until_s=DAY0 + 90 * HOUR)
    page = demo_page(replace(DEMO, runs={**DEMO.runs, (8, "reactive"): lucky}), "mirage demo", "0.1.0")
    assert classes(page)[0][2] == "n good"
    links = (links[0], replace(links[1], started_s=links[1].started_s + 1))
    page = demo_page(replace(DEMO, runs={**DEMO.runs, (8, "reactive"): replace(lucky, links=links)}), "x", "0.1.0")
    assert classes(page)[0][2] == "n gap"


def test_the_words_say_what_was_done() -> None:
    assert headings(PAGE) == [
        "A chain of 8-node links", "Why then? Link 3 of the 8-node chain nears its end", "The cluster",
        "How this was made",
    ]  # fmt: skip
    told = paragraphs(PAGE)
    assert told[0].startswith("A service that runs in 48-hour batch jobs, on a simulated cluster of 76 nodes")
    assert told[3] == (
        "1,234 jobs of other users; median wait 49.5 h, 90 % up to 89.1 h, longest 99.0 h. On average 93% of the nodes "
        "are busy."
    )
    for words in ("lonestar6-like, seed 7", "Queue: slurm", "costs 3:1", "Mirage 0.1.0."):
        assert words in told[4]
    assert "<pre>mirage demo --seed &lt;7&gt;</pre>" in PAGE
    assert "All 252 decisions of what-if for links of 8 nodes" in PAGE


def test_without_an_estimate_there_is_no_picture_of_one() -> None:
    blind = {key: replace(run, decisions=()) for key, run in DEMO.runs.items()}
    page = demo_page(replace(DEMO, runs=blind), "mirage demo", "0.1.0")
    assert "Why then?" in headings(page)
    assert page.count('class="place"') == 2
    assert PAGE.count('class="place"') == 3


def test_a_tail_that_is_cut_off_is_marked_with_its_height() -> None:
    run = DEMO.runs[8, "what-if"]
    link = telling_link(run)
    assert link == 2
    svg = decision_chart(run, link)
    assert svg.count('class="cut"') == 1
    assert ">up to 68 h<" in svg
    assert "It waited 18.0 h." in svg
