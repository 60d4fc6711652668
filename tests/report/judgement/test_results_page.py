"""The page of results, from windows made by hand."""

import json

import pytest

from mirage.errors import ConfigurationError
from mirage.learn.training.comparison.method_comparison import judged
from mirage.report.judgement.results_page import check_results_folder, results_page, write_results
from tests.support.method_comparison import plan, seeds_of

PROVENANCE = {
    "trace": "jobs.csv", "discipline": "easy", "nodes": 8, "settings": "slurm-default", "protocol": "warm",
    "every_s": 43_200, "step_s": 1800, "version": "0", "windows": 4, "command": "mirage compare jobs.csv -o out",
    "seed": 5,
}  # fmt: skip


@pytest.fixture(scope="module")
def comparison():
    return judged(plan(), {2: seeds_of((0, 1))})


def test_the_page_states_what_was_played_and_the_results(comparison):
    text = results_page(comparison, PROVENANCE, {2: "frontier-2-nodes.svg"})
    for part in (
        "`jobs.csv` under `easy` on 8 nodes, settings slurm-default, protocol warm; a window every 12 h",
        "2 seeds (5, 6)",
        "```sh\nmirage compare jobs.csv -o out\n```",
        "**Links of 2 nodes at 1 : 1**: 4 windows: 2 light, 1 medium, 1 heavy",
        "| published | `average` | 1.50 / 1.50 | 50 % | 3.00",
        "| ours | `what-if`, `correction` | 0.88 / 2.88 | 62 % |",
        "| bound | `oracle`, `exact-wait` | 1.00 / 0.00 |",
        "![Interruption against overlap, links of 2 nodes](frontier-2-nodes.svg)",
        "light load (reactive up to 2 h), 2 windows**; in hours, as there is little to close",
        "| `correction` | 4.50 | 3.00 |",
        "| published | `average` | 68 % (10 … 100) less; 50 % (0 … 100) without; overlap 1.50 h | -0.50 h; "
        "100 % without; overlap 3.00 h |",
        "In light load there are 0.50 h to cut, and 50 % of reactive hand-overs have no interruption",
        "Nothing is better than `what-if` beyond doubt.",
        "**Links of 2 nodes at 1 : 1**: 2 windows\n\n|  | policy | interruption / overlap, h | gap closed | more than ",
        "| published | `average` | 3.00 / 0.00 | – | -6.7 | +20.0 (",
        "| ours | `what-if`, `correction` | 1.75 / 0.75 | – |  |  |",
        "At least 17 % less: is undecided for `average` in medium load (0.00 h)",
    ):
        assert part in text, part
    light = text[text.index("light load (reactive") :]
    light = light[: light.index("medium load")]
    assert "gap closed" not in light
    assert "cost minus that of `oracle`, h" in light
    assert "every_s" not in text


def test_the_sections_of_the_page(comparison):
    text = results_page(comparison, PROVENANCE, {})
    assert [line for line in text.splitlines() if line.startswith(("#", "**Links of 2 nodes at 1 : 1"))] == [
        "# Results",
        "## What is proven",
        next(line for line in text.splitlines() if line.startswith("**Links of 2 nodes at 1 : 1.** The cheapest")),
        "## All methods",
        "### Links of 2 nodes",
        "**Links of 2 nodes at 1 : 1**: 4 windows: 2 light, 1 medium, 1 heavy",
        "## Where there is load",
        "**Links of 2 nodes at 1 : 1**: 2 windows",
        "## The published claims",
        "## By load",
        "**Links of 2 nodes at 1 : 1, light load (reactive up to 2 h), 2 windows**; in hours, as there is little to "
        "close",
        "**Links of 2 nodes at 1 : 1, medium load (2 to 12 h), 1 window**",
        "**Links of 2 nodes at 1 : 1, heavy load (more than 12 h), 1 window**",
        "## By month",
        "**Links of 2 nodes at 1 : 1**",
        "## By seed",
        "**Links of 2 nodes at 1 : 1**",
    ]
    assert "![" not in text
    paragraphs = text.split("\n\n")
    assert paragraphs[1] == (
        "`jobs.csv` under `easy` on 8 nodes, settings slurm-default, protocol warm; a window every 12 h, a decision "
        "every 30 min. Tested on 2023-02, each with models that were trained and tuned on windows that were completely "
        "known before the month; 2 seeds (5, 6). Every method runs from its model file, as in an agent. Random methods "
        "run with every seed; a window counts once, for any number of seeds. Mirage 0."
    )
    assert "Intervals: 95 %, from 4 stretches of 7.04 d (" in text
    assert "Each with its difference in cost from `what-if`." in paragraphs
    assert "Mean cost of each seed, for random methods." in paragraphs
    assert any(part.startswith("Hours of interruption / overlap per hand-over.") for part in paragraphs)
    assert any(part.startswith("Their abstract states that provisioning cuts") for part in paragraphs)
    assert (
        "Medium and heavy load together: in light load there is little to gain, and shares are not informative. The "
        "last columns give how many points of the gap of these windows a policy closes beyond `what-if`: the "
        "difference in cost, paired by window, over the mean gap; bold where it is beyond doubt."
    ) in paragraphs
    assert text.endswith("| `true-run-times` | 4.50 | 3.00 |\n")


def test_results_are_written_into_a_folder(comparison, tmp_path):
    pytest.importorskip("matplotlib", reason="pip install mirage-hpc[plot]")
    check_results_folder(tmp_path / "new")
    write_results(tmp_path / "new", comparison, PROVENANCE)
    written = {path.name: path for path in (tmp_path / "new").iterdir()}
    assert sorted(written) == ["frontier-2-nodes.png", "frontier-2-nodes.svg", "results.json", "results.md"]
    expected = results_page(comparison, PROVENANCE, {2: "frontier-2-nodes.svg"})
    assert written["results.md"].read_text(encoding="utf-8") == expected
    plain = json.loads(written["results.json"].read_text(encoding="utf-8"))
    assert (plain["trace"], plain["seed"], len(plain["rows"])) == ("jobs.csv", 5, len(comparison.evaluation.rows))
    drawn = written["frontier-2-nodes.svg"].read_text(encoding="utf-8")
    assert all(f">{name}<" in drawn for name in ("average", "what-if", "correction", "oracle"))
    assert not [name for name in ("exact-wait", "true-run-times", "lead:4") if f">{name}<" in drawn]
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match=r"^cannot write a comparison to .*/file/new: Not a directory$"):
        check_results_folder(tmp_path / "file" / "new")
