"""Texts about a training."""

from io import StringIO
from typing import Any

from rich.console import Console

from mirage.duration import HOUR_S
from mirage.predict.model_file import ModelCard, TrainedOn
from mirage.report.training.training_text import print_trained


def printed_text(rows: int, method: str, figures: dict[str, float] | None = None, **settings: Any) -> str:
    on = TrainedOn("jobs.csv", 0, HOUR_S, rows)
    written = StringIO()
    sizes = {"sizes": {"8": {"method": method, **settings}}}
    card = ModelCard("provisioner", 1, (), on, figures=figures or {}, settings=sizes)
    print_trained(card, Console(file=written, width=140))
    return written.getvalue()


def test_a_training_is_described_by_its_decisions_and_their_dates() -> None:
    assert "12 decisions in windows from 1970-01-01T00:00:00Z to 1970-01-01T01:00:00Z" in printed_text(12, "correction")


def test_where_what_if_is_chosen_for_every_size_nothing_was_trained() -> None:
    text = printed_text(0, "what-if")
    assert "nothing was trained" in text
    assert "decisions in windows" not in text


def test_the_gap_closed_has_its_interval() -> None:
    of_slice = {"windows_8": 40.0, "interruption_h_8": 1.25, "overlap_h_8": 0.5, "gap_closed_8": 0.75}
    text = printed_text(12, "correction", {**of_slice, "gap_low_8": 0.25, "gap_high_8": 1.0})
    assert text.splitlines()[-1].split() == ["8", "correction", "40", "1.25", "0.50", "75%", "[25%,", "100%]"]
    assert printed_text(12, "correction", of_slice).splitlines()[-1].split()[-2:] == ["0.50", "-"]


def test_a_mixture_is_described_with_the_use_of_its_experts() -> None:
    usage = {"expert_0_weight": 0.3, "expert_1_weight": 0.7, "expert_0_led": 0.25, "expert_1_led": 0.75}
    text = printed_text(12, "moe-dqn", settings={"figures": {"balance": 0.92, **usage}})
    assert "experts for links of 8 nodes: mean weights 0.30, 0.70; they lead 25%, 75% of the decisions;" in text
    assert "balance 0.92 of 1" in text
    assert "experts for" not in printed_text(12, "transformer-dqn", settings={"figures": {"weights": 3}})
