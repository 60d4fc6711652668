"""Trainings done ahead by several processes."""

from mirage.learn.training.train_policy import Training, together


def locations(*trainings: Training) -> list[list[str]]:
    return [[one.location for one in piece] for piece in together(trainings)]


def training(method: str, nodes: int = 1, seed: int = 0, until_s: int = 10) -> Training:
    return Training(nodes, method, seed, until_s, 20, f"{nodes}/{until_s}/{method}#{seed}")


def test_networks_of_one_body_are_trained_by_one_process():
    methods = ("transformer", "correction", "moe", "transformer-dqn", "moe-pg", "transformer-pg", "forest")
    assert [[one.partition("/10/")[2] for one in piece] for piece in locations(*map(training, methods))] == [
        ["transformer#0", "transformer-dqn#0", "transformer-pg#0"],
        ["correction#0"],
        ["moe#0", "moe-pg#0"],
        ["forest#0"],
    ]


def test_the_bodies_of_2023_are_others():
    methods = ("transformer-dqn", "transformer-dqn-2023", "transformer-pg-2023")
    assert [len(piece) for piece in together([training(method) for method in methods])] == [1, 2]


def test_other_links_seeds_and_months_are_trained_apart():
    ours = training("transformer")
    others = [training("transformer-pg", nodes=8), training("transformer-pg", seed=1), training("moe", until_s=11)]
    assert [len(piece) for piece in together([ours, *others])] == [1, 1, 1, 1]
