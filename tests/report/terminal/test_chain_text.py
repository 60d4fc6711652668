"""A chain in the terminal, sign by sign."""

from __future__ import annotations

import io
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from mirage.job_state import MISSING
from mirage.provision.chain_record import ChainRun, LinkRecord
from mirage.provision.link_size import LinkSize
from mirage.report.terminal.chain_text import LAST_LINKS, print_chain, timeline

FACTS = {"chain": "train", "state": "active", "policy": "what-if", "why": ""}
HOUR = 3600


pytestmark = pytest.mark.usefixtures("utc")


def run(*links: LinkRecord, until_h: float) -> ChainRun:
    return ChainRun(LinkSize(2, 10 * HOUR), links[0].submitted_s if links else 0, round(until_h * HOUR), links, ())


def link(number: int, submitted_h: float, start_h: float, end_h: float, held_h: float | None = None) -> LinkRecord:
    hours = [round(h * HOUR) if h >= 0 else MISSING for h in (submitted_h, start_h, end_h)]
    return LinkRecord(number, 40 + number, *hours, MISSING if held_h is None else round(held_h * HOUR))


LIFE = run(
    link(0, 0, 2, 12), link(1, 8, 16, 26, held_h=3), link(2, 20, 24, 34, held_h=17), link(3, 28, -1, -1, held_h=25),
    until_h=30,
)  # fmt: skip


def test_every_stretch_has_its_sign() -> None:
    lines = [line.plain for line in timeline(LIFE, 24 + 34 + 14, plain=True)]
    assert lines == [
        "link 1    job 40        ..##########                      ",
        "link 2    job 41           -----....xxxx##########         +04:00:00",
        "link 3    job 42                         ---....%%####==== -02:00:00",
        "link 4    job 43                                 ---..     waits",
        "                        01-01T00:00            01-02T10:00",
        "                        - held  . waiting  # running  = to come  x no link  % two links",
    ]


def test_a_hand_over_that_overlaps_and_interrupts_shows_both() -> None:
    loads = replace(link(1, 5, 8, 18), ready_s=13 * HOUR)
    lines = timeline(run(link(0, 0, 0, 10), loads, until_h=20), 24 + 20 + 28, plain=True)
    assert lines[1].plain == "link 2    job 41             ...%%xxx#####   +03:00:00 -02:00:00"


def test_a_gap_that_is_open_stands_with_the_link_that_waits() -> None:
    (_, second, *_) = timeline(run(link(0, 0, 0, 10), link(1, 5, -1, -1), until_h=20), 24 + 20 + 14, plain=True)
    assert second.plain == "link 2    job 41             .....xxxxxxxxxx +10:00:00 waits"


def test_a_held_link_is_marked() -> None:
    lines = timeline(run(link(0, 0, 0, 10), link(1, 5, -1, -1, held_h=1), until_h=5), 24 + 20 + 14, plain=True)
    assert lines[1].plain == f"link 2    job 41        {'--------':>10}           held"


def test_a_gap_of_a_second_is_visible() -> None:
    short = run(link(0, 0, 0, 100), link(1, 50, 100 + 1 / 3600, 200), until_h=200)
    assert timeline(short, 80, plain=True)[1].plain.count("x") == 1


def printed(shown: ChainRun, facts: dict[str, str], decision: object, encoding: str = "utf-8") -> str:
    raw = io.BytesIO()
    with io.TextIOWrapper(raw, encoding=encoding) as out:
        print_chain(shown, facts, decision, Console(file=out, width=80, highlight=False))
        out.flush()
        return raw.getvalue().decode(encoding)


def test_what_is_printed() -> None:
    text = printed(LIFE, {**FACTS, "state": "paused", "why": "it [rains]"}, SimpleNamespace(time_s=HOUR, reason="now"))
    lines = text.splitlines()
    assert lines[0] == "train  paused, policy what-if: it [rains]"
    assert "██" in text
    assert lines[-2] == "interruption 04:00:00, overlap 02:00:00 (4.00 node-hours), alive 85.71% of the time"
    assert lines[-1] == "last decision 01-01T01:00: now"


@pytest.mark.parametrize(("submitted_h", "starts_h", "jobs"), [(1, 11.1, "1 job"), (1, 11, ""), (12, 30, "1 job")])
def test_a_wait_beyond_the_limit_of_a_link_is_named(submitted_h: float, starts_h: float, jobs: str) -> None:
    """The limit is 10 h."""
    text = printed(run(link(0, 0, 0, 10), link(1, submitted_h, starts_h, starts_h + 10), until_h=45), FACTS, None)
    assert text.count("waited longer than a job may run (10:00:00)") == (1 if jobs else 0)
    assert not jobs or f"\n{jobs} waited longer" in text


def test_a_long_wait_that_still_lasts_is_named_too() -> None:
    waits = link(1, 1, -1, -1)
    assert "1 job waited longer" in printed(run(link(0, 0, 0, 10), waits, until_h=11.1), FACTS, None)
    assert "longer than" not in printed(run(link(0, 0, 0, 10), waits, until_h=10.9), FACTS, None)


def test_a_terminal_without_such_signs_gets_plain_ones() -> None:
    assert "##" in printed(LIFE, FACTS, None, "latin-1")


def test_a_new_chain_and_a_long_one() -> None:
    assert printed(run(until_h=1), FACTS, None).splitlines()[1:] == ["no link has been submitted yet"]
    many = run(*[link(k, 10 * k, 10 * k, 10 * k + 10) for k in range(50)], until_h=500)
    lines = printed(many, FACTS, None).splitlines()
    assert lines[1] == "(30 earlier links are not drawn)"
    assert len([line for line in lines if line.startswith("link ")]) == LAST_LINKS


def test_every_sign_has_its_style() -> None:
    styles = {
        text.plain[span.start : span.end]: span.style for text in timeline(LIFE, 24 + 34 + 14) for span in text.spans
    }
    signs = {sign: style for text, style in styles.items() for sign in [text[0]] if text.strip(sign) == ""}
    assert signs == {"┄": "dim", "·": "yellow", "█": "green", "▒": "green", "×": "bold red", "▓": "bold yellow"}
    assert styles[" +04:00:00"] == "bold red"
    assert styles[" -02:00:00"] == "bold yellow"


def test_as_many_links_as_there_is_room_for_are_all_of_them() -> None:
    for count, expected in ((LAST_LINKS, []), (LAST_LINKS + 1, ["(1 earlier links are not drawn)"])):
        life = run(*[link(k, 10 * k, 10 * k, 10 * k + 10) for k in range(count)], until_h=500)
        assert [line for line in printed(life, FACTS, None).splitlines() if line.startswith("(")] == expected


def test_a_hand_over_without_loss_has_no_note() -> None:
    lines = timeline(run(link(0, 0, 0, 10), link(1, 5, 10, 20), until_h=20), 24 + 20 + 14, plain=True)
    assert lines[1].plain == f"link 2    job 41        {'.....##########':>20}"


@pytest.mark.parametrize(("hours", "axis"), [
    (23, "01-01T00:00              07:40                    15:20               23:00"),
    (24, "01-01T00:00              01-01T08:00              01-01T16:00   01-02T00:00"),
    (240, "01-01T00:00              01-04T08:00              01-07T16:00   01-11T00:00"),
])  # fmt: skip
def test_the_axis_names_instants_where_they_are(hours: int, axis: str) -> None:
    lines = timeline(run(link(0, 0, 0, hours), until_h=hours), 24 + 75 + 14, plain=True)
    assert lines[-2].plain == 24 * " " + axis
    assert lines[-2].style == "dim"


spans = st.lists(
    st.tuples(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(1, 10**6)), min_size=1, max_size=30
)


@given(spans, st.integers(0, 10**7), st.integers(1, 200), st.booleans())
def test_no_line_is_broken_by_any_life(steps: list[tuple[int, int, int]], until_s: int, width: int, last: bool) -> None:
    links, at_s = [], 0
    for k, (apart_s, wait_s, long_s) in enumerate(steps):
        at_s += apart_s
        links.append(LinkRecord(k, k, at_s, at_s + wait_s, at_s + wait_s + long_s, at_s // 2))
    if last:
        links.append(LinkRecord(len(links), MISSING, at_s, MISSING, MISSING))
    lines = timeline(ChainRun(LinkSize(), 0, until_s, tuple(links), ()), width, plain=True)
    assert len(lines) == min(len(links), LAST_LINKS) + 2
    assert all("\n" not in line.plain for line in lines)


def test_what_is_shorter_than_a_column_still_has_one() -> None:
    def shown(*links: LinkRecord) -> list[str]:
        return [line.plain[24:44] for line in timeline(run(*links, until_h=200), 24 + 20 + 14, plain=True)][
            : len(links)
        ]

    first = link(0, 0, 0, 100)
    assert shown(first, link(1, 100, 100, 100.2)) == ["##########          ", "          #         "]
    assert shown(first, link(1, 100, 100.1, 200))[1] == "          x#########"
    assert shown(first, link(1, 99, 99.9, 200))[1] == "          %#########"


def test_a_link_without_a_job_names_none() -> None:
    unknown = replace(link(0, 0, -1, -1), job=MISSING)
    line = timeline(run(unknown, until_h=10), 24 + 20 + 14, plain=True)[0].plain
    assert line[:24] == f"{'link 1':<24}"
