"""``mirage evaluate --chain-length``: its table, its JSON, and refused options."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from mirage.cli import main


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Twelve days on four nodes; every day at noon a job needs all of them for two hours."""
    path = tmp_path_factory.mktemp("trace") / "jobs.csv"
    rows = [f"{day},{day * 86_400 + 43_200},7200,7200,4" for day in range(12)]
    path.write_text("\n".join(["job_id,submit_s,elapsed_s,limit_s,nodes", *rows]) + "\n")
    more = [
        "--discipline",
        "fcfs",
        "--link-limit",
        "4h",
        "--start",
        "1970-01-02",
        "--chain-length",
        "3d",
        "--workers",
        "1",
    ]
    return ["evaluate", str(path), "-N", "4", *more]


def test_the_table_of_a_user(words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "chains.html"
    more = ["--policies", "reactive,lead:1", "--against", "reactive", "--interruption-cost", "3", "--plot", str(page)]
    assert main([*words, *more]) == 0
    assert "lead:1: 6.0 h, alive 91.7%" in page.read_text()
    lines = [re.sub(" +", " ", line).strip() for line in capsys.readouterr().out.splitlines()]
    assert re.fullmatch(
        r".*jobs.csv: 3 windows from 1970-01-02T00:00:00Z, a chain of 3-00:00:00 in each, fcfs on 4 nodes, settings .*",
        lines[0],
    )
    assert lines[1:6] == [
        "links of a newcomer for 04:00:00, up to 3 of which wait at once",
        "",
        "links of 1 node, an hour of interruption costs 3 of overlap",
        "policy interruption h > limit overlap h links alive cost less reactive",
        "reactive 6.0 0.0 0.0 17.0 91.7% 18.00 [18.00, 18.00]",
    ]
    assert re.fullmatch(r"lead:1 6\.0 0\.0 0\.\d 2\d\.\d 91\.7% 18\.\d+ .* worse", lines[6])


def test_json_has_rows_differences_and_each_chain(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ["--policies", "reactive,lead:1", "--windows", "2", "--every", "4d", "--waiting-links", "1", "--json"]
    found = []
    for _ in range(2):
        assert main([*words, *more, "--resume", str(tmp_path)]) == 0
        found.append(json.loads(capsys.readouterr().out))
    first, again = found
    assert (first["chains_reused"], again["chains_reused"]) == (0, 4)
    assert first["rows"] == again["rows"]
    assert [(row["policy"], row["windows"]) for row in first["rows"]] == [("reactive", 2), ("lead:1", 2)]
    assert [(one["policy"], one["begin_s"]) for one in first["chains"]] == [
        ("reactive", 86_400), ("reactive", 5 * 86_400), ("lead:1", 86_400), ("lead:1", 5 * 86_400),
    ]  # fmt: skip
    assert first["differences"] == [], "no what-if to compare with"
    shown = {key: first[key] for key in ("every_s", "chain_s", "step_s", "waiting_links", "link_user", "start")}
    assert shown == {
        "every_s": 4 * 86_400, "chain_s": 3 * 86_400, "step_s": 1800, "waiting_links": 1, "link_user": "newcomer",
        "start": "1970-01-02T00:00:00Z",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--hand-over", "5"), "--hand-over is for single hand-overs, not for --chain-length; leave one of them out"),
        (("--plot", "x.gif"), "cannot draw into x.gif: its name must end in .svg, .html, .png, .pdf"),
        (("--protocol", "published"), "--protocol is for single hand-overs"),
        (("--private-jobs",), "in whole chains all jobs are visible: give --no-private-jobs, or no --chain-length"),
        (
            ("--policies", "reactive,exact-wait"),
            "exact-wait judges a single hand-over; leave it out to judge whole",
        ),
    ],
)
def test_options_of_single_hand_overs_are_refused(
    more: tuple[str, ...], message: str, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, *more]) in (1, 2)
    assert message in capsys.readouterr().err


def test_several_waiting_links_need_a_chain(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    at = words.index("--chain-length")
    assert main([*words[:at], *words[at + 2 :], "--waiting-links", "2"]) == 2
    assert "--waiting-links needs --chain-length: in a single hand-over only one link waits" in capsys.readouterr().err
