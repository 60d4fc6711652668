"""Published weights as schedulers: safe loading, names, known answers."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

from mirage.dag.decima.deciders import decide_own
from mirage.dag.decima.decima_schedulers import read_weights, with_weights
from mirage.dag.decima.network_file import PUBLISHED_SHAPES, read_published
from mirage.dag.decima.networks import graph_network
from mirage.dag.decima.networks.graph_network import FEATURES, WIDTH
from mirage.dag.decima.networks.layers import perceptrons
from mirage.dag.decima.networks.workspace import Extent, workspace
from mirage.dag.schedulers.stage_schedulers import make_scheduler
from mirage.dag.simulator.dag_simulation import DagOutcome, DagSimulation
from mirage.dag.simulator.dag_world import DagCluster
from mirage.dag.workload.dag_arrivals import decima_arrivals, poisson_arrivals
from mirage.dag.workload.generated import generated_templates
from mirage.dag.workload.templates import JobTemplate
from mirage.dag.workload.tpch import read_tpch
from mirage.errors import ConfigurationError, ModelFileError


def weights_of_2019(path: Path, *, without: str = "") -> None:
    """A file of the shape of a published one, with other numbers."""
    random, arrays = np.random.default_rng(4), {}
    for place, (inputs, outputs) in enumerate(PUBLISHED_SHAPES["decima-2019"]):
        if place < 15:
            names = [f"actor_agent_{n}__Variable" if n else "actor_agent__Variable" for n in (2 * place, 2 * place + 1)]
        else:
            layer = f"actor_agent__fully_connected{f'_{place - 15}' if place > 15 else ''}"
            names = [f"{layer}__weights", f"{layer}__biases"]
        arrays[names[0]] = random.normal(0, 0.3, (inputs, outputs)).astype(np.float32)
        arrays[names[1]] = np.zeros(outputs, np.float32)
    arrays.pop(without, None)
    np.savez(path, **arrays)  # type: ignore[arg-type]  # the names are keywords


@pytest.fixture(scope="module")
def tpch(shared_data: Path) -> Path:
    return shared_data / "tpch"


@pytest.fixture(scope="module")
def measured(tpch: Path) -> tuple[JobTemplate, ...]:
    return read_tpch(tpch / "tpch_profiles.json.gz")


def episode(templates: tuple[JobTemplate, ...], name: str, setting: tuple[int, int], seed: int) -> DagOutcome:
    scheduler = make_scheduler(name)
    simulation = DagSimulation(templates, poisson_arrivals(setting[1], seed), DagCluster(setting[0]), seed=seed)
    return simulation.run(scheduler.decider, scheduler.parameters_for(seed))


def test_weights_are_read_by_name_and_schedule_any_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights_of_2019(tmp_path / "a.npz")
    monkeypatch.setenv("MIRAGE_DECIMA_WEIGHTS", str(tmp_path / "a.npz"))
    templates, ends = generated_templates(), {}
    for name in (f"decima:{tmp_path / 'a.npz'}", "decima", "decima-argmax"):
        for seed in (1, 2):
            scheduler = make_scheduler(name)
            arrivals = poisson_arrivals(12, 5, templates=len(templates))
            simulation = DagSimulation(templates, arrivals, DagCluster(8, environment="decima-2019"), seed=5)
            ends[name, seed] = simulation.run(scheduler.decider, scheduler.parameters_for(seed)).jct_s.tolist()
    named, default, argmax = (ends[name, 1] for name in dict.fromkeys(name for name, _ in ends))
    assert named == default
    assert default != ends["decima", 2]  # another seed draws other decisions
    assert argmax == ends["decima-argmax", 2] != default


def test_a_comparison_names_the_weights_or_finds_them_next_to_the_profiles(tmp_path: Path) -> None:
    weights_of_2019(tmp_path / "spark_sched_sim_decima_weights.npz")  # by name only
    found = with_weights("decima", None, str(tmp_path / "tpch_profiles.json.gz"))
    named = with_weights("decima-argmax", str(tmp_path / "spark_sched_sim_decima_weights.npz"), None)
    assert (found.name, found.seeded, named.name, named.seeded) == ("decima", True, "decima-argmax", False)
    assert with_weights("fair", "absent", None).name == "fair"


def test_the_network_that_ships_schedules_better_than_fair_shares() -> None:
    templates, means = generated_templates(), {}
    for name in ("fair", "decima-argmax:own"):
        scheduler = make_scheduler(name)
        simulation = DagSimulation(templates, poisson_arrivals(30, 3, templates=len(templates)), DagCluster(10), seed=3)
        means[name] = simulation.run(scheduler.decider, scheduler.parameters_for(3)).jct_s.mean()
    assert means["decima-argmax:own"] < 0.8 * means["fair"]


def test_a_file_that_is_none_is_refused_with_what_to_give(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MIRAGE_DECIMA_WEIGHTS", raising=False)
    with pytest.raises(ConfigurationError, match="decima:FILE"):
        make_scheduler("decima")
    with pytest.raises(ModelFileError, match="no such file"):
        make_scheduler(f"decima:{tmp_path / 'absent'}")
    weights_of_2019(tmp_path / "part.npz", without="actor_agent_7__Variable")
    closing = "; give the weights of one of the published architectures$"
    with pytest.raises(ModelFileError, match=rf"part\.npz: there is no array 'actor_agent_7__Variable'{closing}"):
        read_published(tmp_path / "part.npz")
    np.savez(tmp_path / "spark.npz", other=np.zeros(3))
    with pytest.raises(ModelFileError, match=r"spark\.npz: there is no array 'encoder.node_encoder.mlp_prep.0.weight'"):
        read_published(tmp_path / "spark.npz")
    with pytest.raises(ModelFileError, match=r"gone\.npz: no such file; give an npz file of Decima's weights$"):
        read_published(tmp_path / "gone.npz")
    for name, changes, message in (
        (
            "shape",
            {"actor_agent_3__Variable": np.zeros(9)},
            r"layer 1 has weights of shape \(16, 8\) and biases of \(9,\)",
        ),
        (
            "nan",
            {"actor_agent_2__Variable": np.full((16, 8), np.nan)},
            "layer 1 contains numbers that are not finite; copy",
        ),
        (
            "large",
            {"actor_agent_2__Variable": np.full((16, 8), 1e39)},
            "layer 1 contains numbers that are not finite; copy",
        ),
        ("words", {"actor_agent_3__Variable": np.full(8, "0.5")}, "cannot be read as an npz file of plain arrays: "),
        ("complex", {"actor_agent_3__Variable": np.full(8, 1j)}, "cannot be read as an npz file of plain arrays: "),
    ):
        weights_of_2019(tmp_path / f"{name}.npz")
        with np.load(tmp_path / f"{name}.npz") as whole:
            np.savez(tmp_path / f"{name}.npz", **{**whole, **changes})
        with pytest.raises(ModelFileError, match=rf"{name}\.npz:? {message}"):
            read_published(tmp_path / f"{name}.npz")
    with zipfile.ZipFile(tmp_path / "bytes.npz", "w") as file:
        file.writestr("encoder.node_encoder.mlp_prep.0.weight", b"0.5")
    np.save(tmp_path / "one.npy", np.zeros(3))
    for name in ("bytes.npz", "one.npy"):
        with pytest.raises(ModelFileError, match=rf"{name} cannot be read as an npz file of plain arrays"):
            read_published(tmp_path / name)
    np.savez(tmp_path / "objects.npz", actor_agent__Variable=np.array([{}], dtype=object))
    with pytest.raises(ModelFileError, match="plain arrays"):
        read_published(tmp_path / "objects.npz")
    (tmp_path / "objects.npz").write_bytes(b"")
    with pytest.raises(ModelFileError, match="plain arrays: No data left in file; copy the file again"):
        read_published(tmp_path / "objects.npz")
    (tmp_path / "text").write_text("weights")
    with pytest.raises(ModelFileError):
        read_weights(str(tmp_path / "text"))


def test_published_weights_are_read_in_the_order_of_the_layers(tmp_path: Path) -> None:
    weights_of_2019(tmp_path / "a.npz")
    architecture, net = read_published(tmp_path / "a.npz")
    assert architecture == "decima-2019"
    with np.load(tmp_path / "a.npz") as arrays:
        names = [f"actor_agent{f'_{n}' if n else ''}__Variable" for n in range(0, 30, 2)]
        names += [f"actor_agent__fully_connected{f'_{n}' if n else ''}__weights" for n in range(8)]
        for name, (begin, inputs, outputs) in zip(names, net.layers.tolist(), strict=True):
            assert net.numbers[begin : begin + inputs * outputs].tolist() == arrays[name].ravel().tolist()


def test_weights_of_pytorch_are_turned(tmp_path: Path) -> None:
    random, arrays = np.random.default_rng(2), {}
    shapes = iter(PUBLISHED_SHAPES["spark-sched-sim"])
    for name in (
        *(f"encoder.node_encoder.mlp_{part}" for part in ("prep", "msg", "update")), "encoder.dag_encoder.mlp",
        "encoder.global_encoder.mlp", "stage_policy_network.mlp_score", "exec_policy_network.mlp_score",
    ):  # fmt: skip
        for place in (0, 2, 4):
            inputs, outputs = next(shapes)
            arrays[f"{name}.{place}.weight"] = random.normal(0, 0.3, (outputs, inputs)).astype(np.float32)
            arrays[f"{name}.{place}.bias"] = random.normal(0, 0.3, outputs).astype(np.float32)
    np.savez(tmp_path / "a.npz", **arrays)  # type: ignore[arg-type]  # the names are keywords
    architecture, net = read_published(tmp_path / "a.npz")
    assert architecture == "spark-sched-sim"
    pairs = list(zip(list(arrays.values())[::2], list(arrays.values())[1::2], strict=True))
    for (weights, biases), (begin, inputs, outputs) in zip(pairs, net.layers.tolist(), strict=True):
        middle = begin + inputs * outputs
        assert net.numbers[begin:middle].tolist() == weights.T.ravel().tolist()
        assert net.numbers[middle : middle + outputs].tolist() == biases.tolist()


def test_a_crowd_larger_than_the_workspace_is_still_served() -> None:
    """More jobs than a network considers: the first ones are considered, and all end."""
    random = np.random.default_rng(1)
    layers = [(random.normal(0, 0.3, s).astype(np.float32), np.zeros(s[1], np.float32)) for s in graph_network.SHAPES]
    extent = Extent(jobs=3, stages=60, links=300, numbers=8)
    space = workspace(perceptrons(layers), FEATURES, WIDTH, argmax=True, extent=extent)
    templates = generated_templates()
    simulation = DagSimulation(templates, poisson_arrivals(20, 1, gap_s=0.01), DagCluster(6), seed=1)
    outcome = simulation.run(decide_own, space)
    assert (outcome.jct_s > 0).all()


@pytest.mark.slow
def test_the_teacher_of_spark_sched_sim_does_as_there(measured: tuple[JobTemplate, ...], tpch: Path) -> None:
    """Mean completion times at 50/200 (seeds 0-3) and 10/50 (0-7), drawn and likeliest."""
    weights, means = tpch / "spark_sched_sim_decima_weights.npz", []
    for name in (f"decima:{weights}", f"decima-argmax:{weights}"):
        for setting, seeds in (((50, 200), 4), ((10, 50), 8)):
            means.append(np.mean([episode(measured, name, setting, seed).jct_s.mean() for seed in range(seeds)]))
    drawn, drawn_busy, likeliest, likeliest_busy = means
    assert drawn == pytest.approx(51.3, rel=0.012)
    assert likeliest == pytest.approx(60.9, rel=0.012)
    assert (drawn_busy, likeliest_busy) == pytest.approx((636.2, 514.3), rel=0.03)


@pytest.mark.slow
def test_the_teacher_of_2019_does_as_there(measured: tuple[JobTemplate, ...], tpch: Path) -> None:
    """61.09 s on the stream of 5,001 jobs (20,000 iterations); here its first 2,000 jobs."""
    scheduler = make_scheduler(f"decima:{tpch / 'decima_weights_20000_iterations.npz'}")
    arrivals = decima_arrivals(2000, 10_000_000)
    simulation = DagSimulation(measured, arrivals, DagCluster(50, environment="decima-2019"))
    outcome = simulation.run(scheduler.decider, scheduler.parameters_for(0))
    assert outcome.jct_s.mean() == pytest.approx(61.09, rel=0.03)
