"""Model files come back as they were written, and every other file is refused by name."""

import json
import struct
from pathlib import Path

import numpy as np
import pytest

from mirage.errors import ModelFileError
from mirage.predict.boosted_trees import trees_as_bytes, trees_from_bytes
from mirage.predict.model_file import Feature, ModelCard, TrainedOn, read_model_file, write_model_file
from mirage.version import __version__

safetensors = pytest.importorskip("safetensors.numpy", reason="pip install mirage-hpc[predict]")

CARD = ModelCard(
    kind="waits",
    schema=2,
    features=(Feature("limit", "s"), Feature("nodes", "nodes")),
    trained_on=TrainedOn("ls6-a100.log.gz", 1_664_000_000, 1_680_000_000, 24_777),
    figures={"within x2": 0.5},
    settings={"levels": [0.1, 0.5, 0.9], "partitions": ["gpu", "größe"]},
)
ARRAYS = {
    "quantiles": np.linspace(0, 1, 12).reshape(3, 4),
    "counts": np.arange(5, dtype=np.int64),
    "known": np.array([True, False]),
    "scalar": np.float32(3.5),
    "none": np.zeros((0, 4)),
    "turned": np.arange(6.0).reshape(2, 3).T,
}


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "waits.model"
    write_model_file(path, CARD, ARRAYS)
    return path


def header_of(path):
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def rewrite(path, header, body):
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def rewrite_header(path, change):
    header, body = header_of(path)
    content = json.loads(header["__metadata__"]["mirage"])
    change(content)
    header["__metadata__"]["mirage"] = json.dumps(content)
    rewrite(path, header, body)


def test_a_model_comes_back_as_it_was_written(path):
    read = read_model_file(path, "waits", 2)
    assert read.card == CARD
    assert read.card.package == __version__
    assert read.arrays.keys() == ARRAYS.keys()
    for name, values in ARRAYS.items():
        assert read.arrays[name].dtype == np.asarray(values).dtype
        np.testing.assert_array_equal(read.arrays[name], values, strict=False)


def test_other_programs_read_the_numbers_and_the_card(path):
    arrays = safetensors.load(path.read_bytes())
    np.testing.assert_array_equal(arrays["turned"], ARRAYS["turned"])
    content = json.loads(header_of(path)[0]["__metadata__"]["mirage"])
    assert content["card"]["features"] == [{"name": "limit", "unit": "s"}, {"name": "nodes", "unit": "nodes"}]
    assert content["card"]["trained_on"]["rows"] == 24_777


def test_equal_models_are_equal_files(path, tmp_path):
    write_model_file(tmp_path / "again", CARD, dict(reversed(ARRAYS.items())))
    assert json.loads(header_of(tmp_path / "again")[0]["__metadata__"]["mirage"]) == json.loads(
        header_of(path)[0]["__metadata__"]["mirage"]
    )


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.9, 0.999])
def test_a_file_that_was_cut_short_is_named(path, share):
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ModelFileError, match=r"waits\.model.*cut short"):
        read_model_file(path, "waits", 2)


def test_a_flipped_bit_is_found(path):
    content = bytearray(path.read_bytes())
    content[-3] ^= 4
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match="damaged"):
        read_model_file(path, "waits", 2)


@pytest.mark.parametrize("content", [b"PK\x03\x04 a zip", b"\x80\x04\x95 a pickle", b"{}", bytes(100)])
def test_a_foreign_file_is_named(tmp_path, content):
    (tmp_path / "other").write_bytes(content)
    with pytest.raises(ModelFileError, match="other is no model file"):
        read_model_file(tmp_path / "other", "waits", 2)


def test_a_file_that_may_not_be_read_is_not_reported_as_missing(path, monkeypatch):
    refused = PermissionError(13, "Permission denied")
    monkeypatch.setattr(Path, "open", lambda self, mode: (_ for _ in ()).throw(refused))
    with pytest.raises(ModelFileError, match=r"cannot be read: Permission denied$"):
        read_model_file(path, "waits", 2)


def test_safetensors_of_another_program_are_named(tmp_path):
    safetensors.save_file({"weights": np.zeros(3)}, tmp_path / "other")
    with pytest.raises(ModelFileError, match="another program"):
        read_model_file(tmp_path / "other", "waits", 2)


def test_an_absent_file_is_named(tmp_path):
    with pytest.raises(ModelFileError, match="no such file"):
        read_model_file(tmp_path / "none", "waits", 2)


def test_a_model_of_another_kind_is_named(path):
    with pytest.raises(ModelFileError, match="predicts waits, not run-times"):
        read_model_file(path, "run-times", 9)


def test_a_newer_model_is_named(path):
    with pytest.raises(ModelFileError, match="newer Mirage"):
        read_model_file(path, "waits", 1)


def test_a_newer_layout_is_named_whatever_its_card_holds(path):
    rewrite_header(path, lambda content: content.update(layout=2, card={"package": "9.0"}))
    with pytest.raises(ModelFileError, match=r"newer Mirage \('9\.0'"):
        read_model_file(path, "waits", 2)


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content.pop("card"),
        lambda content: content.pop("sha256"),
        lambda content: content.update(card=[]),
        lambda content: content["card"].pop("kind"),
        lambda content: content["card"].update(features=["limit"]),
        lambda content: content["card"].update(trained_on={}),
        lambda content: content["card"].update(schema="two"),
        lambda content: content["card"].update(settings=3),
        lambda content: content.update(layout="1"),
    ],
)
def test_a_broken_card_is_named(path, change):
    rewrite_header(path, change)
    with pytest.raises(ModelFileError, match="card"):
        read_model_file(path, "waits", 2)


def test_what_a_later_version_adds_to_a_card_is_passed_over(path):
    rewrite_header(path, lambda content: content["card"].update(colour="blue"))
    assert read_model_file(path, "waits", 2).card == CARD


def test_objects_and_what_json_cannot_express_are_never_written(tmp_path):
    with pytest.raises(ValueError, match="numbers only"):
        write_model_file(tmp_path / "m", CARD, {"names": np.array(["a", None], dtype=object)})
    with pytest.raises(ValueError, match="JSON compliant"):
        write_model_file(tmp_path / "m", ModelCard(**{**vars_of(CARD), "figures": {"x": float("nan")}}), ARRAYS)
    assert list(tmp_path.iterdir()) == []


def vars_of(card):
    return {name: getattr(card, name) for name in card.__dataclass_fields__}


def test_a_failed_write_leaves_the_older_model(path):
    before = path.read_bytes()
    with pytest.raises(ValueError, match="numbers only"):
        write_model_file(path, CARD, {"names": np.array(["a"])})
    assert path.read_bytes() == before


def test_boosted_trees_come_back_from_bytes(path):
    xgboost = pytest.importorskip("xgboost", reason="pip install mirage-hpc[predict]")
    inputs = np.random.default_rng(0).normal(size=(200, 2))
    matrix = xgboost.DMatrix(inputs, inputs[:, 0] > 0)
    booster = xgboost.train({"max_depth": 2, "nthread": 1}, matrix, num_boost_round=3)
    write_model_file(path, CARD, {"trees": trees_as_bytes(booster)})
    again = trees_from_bytes(read_model_file(path, "waits", 2).arrays["trees"])
    np.testing.assert_array_equal(again.predict(matrix), booster.predict(matrix))


def test_bytes_that_are_no_trees_are_named():
    pytest.importorskip("xgboost", reason="pip install mirage-hpc[predict]")
    with pytest.raises(ModelFileError, match="cannot read the trees"):
        trees_from_bytes(np.frombuffer(b"\x80\x04 no trees at all", dtype=np.uint8))
