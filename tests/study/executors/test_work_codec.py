"""Files of work and results: every value survives, and no file makes a reader call code."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.dag.compare.dag_trial import DagTrial, DagTrialResult, Scene, begin
from mirage.dag.schedulers.stage_schedulers import make_scheduler
from mirage.dag.setting import EpisodeSetting
from mirage.dag.simulator.dag_world import DagCluster
from mirage.dag.workload.templates import JobTemplate, StageProfile
from mirage.errors import ConfigurationError
from mirage.job_state import JobState
from mirage.policy.cost import Cost
from mirage.provision.evaluation.episode import Scenario
from mirage.provision.evaluation.evaluation_protocol import EvaluationProtocol
from mirage.provision.evaluation.evaluation_study import Study
from mirage.provision.evaluation.evaluation_study import begin as begin_windows
from mirage.provision.link_size import LinkSize
from mirage.sim.cluster import Cluster, NodeGroup
from mirage.sim.workload import workload
from mirage.study.executors.work_codec import decode, encode, sent_to_jobs
from mirage.trace.table import JobTable

FILE = Path("/shared/jobs/3.result")


class Colour(Enum):
    RED = "r"
    BLUE = ("b", 2)


@dataclass(frozen=True)
class Leaf:
    """A value with one field."""

    value: Any


@dataclass
class Checked:
    """A value with a constructor that checks it, and derives another."""

    size: int
    twice: int = field(init=False)

    def __post_init__(self) -> None:
        if self.size < 0:
            raise ConfigurationError(f"{self.size} is no size")
        self.twice = 2 * self.size


@sent_to_jobs
def marked(value: object) -> object:
    return value


def unmarked(value: object) -> object:
    return value


def again(value: object) -> Any:
    return decode(encode(value), FILE)


def edited(value: object, change: Any) -> bytes:
    """The bytes of a value after a string of its JSON was replaced, or a function applied."""
    content = encode(value)
    begin_of_text = content.index(b"\n") + 9
    end = begin_of_text + int.from_bytes(content[begin_of_text - 8 : begin_of_text], "big")
    headers, tree = json.loads(content[begin_of_text:end])
    text = json.dumps(change(headers, tree)).encode()
    return content[: begin_of_text - 8] + len(text).to_bytes(8, "big") + text + content[end:]


def naming(reference: str, *arguments: object, tag: str = "object") -> bytes:
    return edited(0, lambda headers, _: [headers, [tag, reference, *arguments]])


plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters())
values = st.recursive(
    plain | st.sampled_from([*Colour, *JobState]),
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(plain, inner) | inner.map(Leaf),
    max_leaves=30,
)


@given(values)
def test_plain_values_survive(value: object) -> None:
    assert again(value) == value
    assert repr(again(value)) == repr(value)


@given(st.frozensets(plain) | st.sets(st.tuples(plain, plain)))
def test_sets_survive(value: object) -> None:
    assert again(value) == value
    assert type(again(value)) is type(value)


@pytest.mark.parametrize("number", [-0.0, 0.1 + 0.2, 5e-324, 1.7976931348623157e308, np.inf, -np.inf, np.nan, 2**80])
@pytest.mark.parametrize("n", [1, 50])
def test_numbers_survive_to_the_last_bit(number: float, n: int) -> None:
    assert repr(again((number,) * n)) == repr((number,) * n)
    assert repr(again([number, "x"] * n)) == repr([number, "x"] * n)


RECORDS = np.dtype((np.record, np.dtype([("a", np.int8), ("b", np.float64, (2,)), ("c", "U3")], align=True)))
PACKED = np.dtype([("a", np.int8), ("b", [("x", ">i4"), ("y", "M8[s]")])])


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.int16).reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(12)[::2],
        np.array(3.5),
        np.zeros((0, 4), np.float32),
        np.array(["α", "long"]),
        np.array([], "U1"),
        np.array([True, False]),
        np.array([1, 2], ">i8"),
        np.array(["2024-01-01"], "M8[s]"),
        np.zeros(3, RECORDS).view(np.recarray),
        np.ones(2, PACKED),
        np.frombuffer(b"12345678", np.uint8),  # cannot be written
    ],
    ids=str,
)
def test_arrays_survive_with_their_layout(array: np.ndarray) -> None:
    found = again({"an": [array]})["an"][0]
    assert type(found) is type(array)
    assert found.dtype == array.dtype
    assert (found.dtype.type, found.dtype.isalignedstruct) == (array.dtype.type, array.dtype.isalignedstruct)
    assert (found.shape, found.tobytes()) == (array.shape, array.tobytes())
    assert found.flags.f_contiguous == np.array(array, order="K", copy=True).flags.f_contiguous
    assert found.flags.writeable
    assert found.flags.aligned
    assert found.flags.owndata or found.base.flags.owndata


def test_an_array_that_is_held_twice_is_stored_once() -> None:
    array = np.arange(100_000)
    assert len(encode([array, Leaf(array)])) < 1.1 * array.nbytes
    one, two = again([array, Leaf(array)])
    assert one is two.value
    assert [x.tolist() for x in again([np.full(2, k) for k in range(99)])] == [[k, k] for k in range(99)]


@pytest.mark.parametrize(
    "value", [np.float32(0.1), np.int64(-3), np.bool_(True), np.str_("x"), range(3, 9, 2), Path("/a/b")]
)
def test_other_values_survive(value: object) -> None:
    assert again(value) == value
    assert type(again(value)) is type(value)


def test_functions_and_values_are_found_by_name() -> None:
    assert again((marked, Checked(3), Colour.BLUE)) == (marked, Checked(3), Colour.BLUE)
    assert again(make_scheduler("capped").decider) is make_scheduler("capped").decider


def test_the_work_of_a_comparison_survives() -> None:
    stage = StageProfile(2, *[{5: np.array([1000], np.int32)}] * 3)
    scene = Scene((JobTemplate("job", ((0, 1),), (stage,) * 2),), (make_scheduler("capped:0:2"),), DagCluster())
    trial = DagTrial(0, EpisodeSetting(5, 4), 7)
    begun, sent, (piece,) = again((begin, scene, [trial]))
    found = again(begun(sent)(piece))
    assert found == begin(scene)(trial)
    assert isinstance(found[1], DagTrialResult)


def test_the_work_of_an_evaluation_survives_to_its_key() -> None:
    table = JobTable.build(
        range(9), submit_s=range(9), elapsed_s=[60] * 9, limit_s=[600] * 9, nodes=[1] * 9, user=["a", "b", "c"] * 3
    )
    cluster = Cluster((NodeGroup("all", 8),))
    protocol = EvaluationProtocol.named("warm", 3 * 86400, windows=2)
    study = Study(Scenario(cluster, workload(table, cluster)), protocol, (LinkSize(1, 3600),), ())
    begun, sent, windows = again((begin_windows, study, range(2)))
    assert (begun, windows) == (begin_windows, range(2))
    assert sent.key == study.key


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (unmarked, r"test_work_codec:unmarked cannot be sent to a job; only .*@sent_to_jobs"),
        (lambda: 0, "cannot be sent"),
        (Leaf(os.system), "'posix' is not Mirage, nor a package with an entry point of Mirage"),
        (np.array([object()]), "an array of object cannot be sent"),
        (object(), "cannot be sent"),
        ([(1, {"a": b"x"})], "its type is builtins.bytes"),
        (np.ma.array([1]), "cannot be sent"),
    ],
)
def test_what_cannot_be_sent_is_refused_before_a_job_is_submitted(value: object, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        encode(value)


@pytest.mark.parametrize(
    "reference",
    [
        "os:system",
        "builtins:eval",
        "subprocess:Popen",
        "mirage.slurm.runner:subprocess",  # imported there
        "mirage.slurm.runner:subprocess.Popen",
        "mirage.slurm.runner:os",
        "mirage.slurm.runner:SystemRunner.run",
        "mirage.slurm.runner.subprocess:Popen",
        "mirage.cli:main",  # would do whatever its argument says
        "mirage.__main__:main",
        "mirage.study.executors.work_codec:import_module",
        "mirage.study.executors.work_codec:Path",
        "mirage.study.executors.work_codec:__builtins__",
        "mirage.study.executors.remote_work:RemoteWork.create",
        "mirage.study.executors:work_codec",
        "mirage:__getattr__",
        "mirage.no_such_module:x",
        "miragex:x",
        "..mirage.cli:main",
        "mirage.cli",
        ":",
        "",
    ],
)
@pytest.mark.parametrize("tag", ["object", "function", "enum", "call", "__reduce__"])
def test_only_what_is_meant_to_be_sent_can_be_named(reference: str, tag: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^/shared/jobs/3\.result is not a file of work or results"):
        decode(naming(reference, "touch /tmp/x", tag=tag), FILE)


def test_a_class_that_is_no_value_is_not_constructed() -> None:
    with pytest.raises(ConfigurationError, match=r"'mirage\.slurm\.client:SlurmClient' cannot be sent as 'object'"):
        decode(naming("mirage.slurm.client:SlurmClient"), FILE)


@pytest.mark.parametrize(
    ("made", "complaint"),
    [
        (lambda: b"", "it does not begin as such a file does"),
        (lambda: encode((1, np.arange(9)))[:-1], r"it ends within an array of shape \(9,\)"),
        (lambda: encode((1, np.arange(9)))[:40], "JSONDecodeError"),
        (lambda: encode((1, np.arange(9))) + b"x", "1 bytes behind its last array"),
        (lambda: edited(Cost(2, 3), lambda h, t: [h, t[:-1]]), "argument 2 is shorter|shorter than"),
        (lambda: edited(Cost(2, 3), lambda h, t: [h, [*t, 1]]), "longer than"),
        (lambda: edited(Checked(3), lambda h, t: [h, [*t[:-1], -3]]), "ConfigurationError: -3 is no size"),
        (
            lambda: edited(Cost(2, 3), lambda h, t: [h, [t[0], "mirage.policy.cost:Coast", *t[2:]]]),
            "cost defines no Coast",
        ),
        (lambda: edited(Colour.RED, lambda h, t: [h, [*t[:-1], "GREEN"]]), "KeyError: 'GREEN'"),
        (lambda: edited(np.arange(3), lambda h, t: [[["|O", [3], "C", False]], t]), "an array of objects"),
        (lambda: edited(np.arange(3), lambda h, t: [[["<i8", [10**12], "C", False]], t]), "it ends within an array"),
        (lambda: edited(np.arange(3), lambda h, t: [[["<i8", [-3], "C", False]], t]), "it ends within an array"),
        (lambda: edited(np.arange(3), lambda h, t: [h, ["array", 5]]), "IndexError"),
        (lambda: edited(0, lambda h, t: [h, {"a": 1}]), "a value without a tag"),
        (lambda: edited(0, lambda h, t: [h, []]), "ValueError"),
        (lambda: edited(0, lambda h, t: [h, json.loads("[" * 900 + "]" * 900)]), "Error"),
    ],
)
def test_a_changed_file_is_named(made: Callable[[], bytes], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint) as error:
        decode(made(), FILE)
    assert str(error.value).startswith(f"{FILE} is not a file of work or results")


def test_a_package_without_an_entry_point_of_mirage_cannot_be_named(monkeypatch, tmp_path: Path) -> None:
    (tmp_path / "stranger.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        ConfigurationError, match="'stranger' is not Mirage, nor a package with an entry point of Mirage"
    ):
        decode(naming("stranger:Thing"), FILE)
