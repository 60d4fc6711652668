"""``mirage train``: commands that learn from traces."""

from __future__ import annotations

from mirage.cli.lazy import LazyCommand, LazyGroup
from mirage.cli.options import CONTEXT, examples

_METHOD = "mirage.cli.commands.train.method"

SUMMARIES = {
    "best": "Learn hand-overs by the best method for each size of link, by rolling origin.",
    "correction": "Learn hand-overs: correct the forecast of what-if by its outcomes.",
    "stopping": "Learn hand-overs: optimal stopping by backward induction.",
    "boosted": "Learn hand-overs: gradient boosting of the outcome's distribution.",
    "forest": "Learn hand-overs: quantile regression forest.",
    "random-forest-2023": "Learn hand-overs: the forest of Mirage, SC'23.",
    "xgboost-2023": "Learn hand-overs: XGBoost as in Mirage, SC'23.",
    "transformer": "Learn hand-overs: transformer, the outcome's distribution.",
    "transformer-dqn": "Learn hand-overs: transformer, DQN.",
    "transformer-pg": "Learn hand-overs: transformer, policy gradient.",
    "moe": "Learn hand-overs: mixture of experts, the outcome's distribution.",
    "moe-dqn": "Learn hand-overs: mixture of experts, DQN.",
    "moe-pg": "Learn hand-overs: mixture of experts, policy gradient.",
    "transformer-dqn-2023": "Learn hand-overs: transformer and regression of Mirage, SC'23.",
    "transformer-pg-2023": "Learn hand-overs: transformer and REINFORCE of Mirage, SC'23.",
    "moe-dqn-2023": "Learn hand-overs: mixture and regression of Mirage, SC'23.",
    "moe-pg-2023": "Learn hand-overs: mixture and REINFORCE of Mirage, SC'23.",
}
"""Methods of learning hand-overs, for the menu; ``mirage.learn.training.methods`` trains them."""

train = LazyGroup(
    name="train",
    lazy={
        "predict": LazyCommand("mirage.cli.commands.train.predict:predict", "Learn queue waits from a trace."),
        "decima": LazyCommand("mirage.cli.commands.train.decima:decima", "Learn to schedule jobs of stages."),
        **{name: LazyCommand(f"{_METHOD}:{name}", summary) for name, summary in SUMMARIES.items()},
    },
    context_settings=CONTEXT,
    help="Train policies and wait predictions from a trace.",
    epilog=examples(
        "mirage train predict jobs.log.gz -o waits.model",
        "mirage train best jobs.log.gz --nodes 76 --link-nodes 1,8 --tune-until 2023-03-01 -o model",
    ),
)
