"""The card of a model on the terminal."""

from __future__ import annotations

from mirage.predict.model_file import Feature, ModelCard, TrainedOn
from mirage.report.terminal.model_card_text import print_model_card
from tests.support.printed_text import printed

CARD = ModelCard(
    "waits",
    3,
    (Feature("nodes", "nodes"), Feature("limit", "s")),
    TrainedOn("jobs.csv", 1_704_067_200, 1_706_745_600, 12_345),
    {
        "coverage_80": 0.7914, "within_factor_2": 0.5, "jobs_held_out": 4321.0, "median_error_s": 812.4,
        "mean_error_s": 20_345.6, "loss": 0.02345,
    },
    package="0.9",
)  # fmt: skip


def test_a_card_states_its_training_data_and_its_accuracy() -> None:
    assert printed(lambda console: print_model_card(CARD, console), 100) == [
        "<bold>waits of jobs.csv</>, schema 3, Mirage 0.9",
        "12,345 jobs, 2024-01-01T00:00:00Z to 2024-02-01T00:00:00Z",
        "2 features: nodes (nodes), limit (s)",
        "",
        "<dim>on later jobs, held out        </>",
        "coverage 80               79.1%",
        "within factor 2           50.0%",
        "jobs held out             4,321",
        "median error s              812",
        "mean error s             20,346",
        "loss                     0.0234",
    ]
