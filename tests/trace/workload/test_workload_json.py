"""Models that are no models: the error names the file and the cause."""

from __future__ import annotations

import codecs
import json
from pathlib import Path

import pytest

from mirage.errors import TraceError
from mirage.trace.workload.workload_json import builtin_model, is_model_file, model_to_json, read_model


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[" * 9_000, ":1: not a workload model: it is nested too deeply"),
        (b"{\n,}", ":2: not JSON: "),
        (b"\xff", ":1: cannot be read: it is not text in UTF-8: byte 1 is 0xff; name a model"),
        (b"{}", ":1: schema is None, this version of Mirage reads"),
    ],
)
def test_a_file_of_something_else_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "m.json").write_bytes(content)
    with pytest.raises(TraceError) as refused:
        read_model(tmp_path / "m.json")
    assert str(refused.value).startswith(f"{tmp_path}/m.json{message}")


@pytest.mark.parametrize(
    "content",
    [
        model_to_json(builtin_model("lonestar6-like")),
        json.dumps(json.loads(model_to_json(builtin_model("lonestar6-like"))), sort_keys=True, separators=(",", ":")),
    ],
)
@pytest.mark.parametrize("mark", [b"", codecs.BOM_UTF8])
def test_a_model_in_another_form_of_json_is_one(tmp_path: Path, content: str, mark: bytes) -> None:
    (tmp_path / "m.json").write_bytes(mark + content.encode())
    assert is_model_file(tmp_path / "m.json")
    assert model_to_json(read_model(tmp_path / "m.json")) == model_to_json(builtin_model("lonestar6-like"))


@pytest.mark.parametrize(
    ("entry", "value", "message"),
    [
        ("name", None, "it has no 'name'"),
        ("colour", 1, "it has an unknown entry 'colour'"),
        ("hour_weight", [], "hour_weight has 0, not 168 numbers"),
        ("gap_s", [], "gap_s has 0, not 3 x 2 or more numbers"),
        ("return_lag", [], "return_lag has 0, not 2 or more numbers"),
        ("same_shape", [0.1], "same_shape has 1, not 2 numbers"),
        ("same_use", 0.1, "same_use has one number, not 2 numbers"),
        ("states", [[1, 0, 0]], "states has 1 x 3, not 2 x 3 numbers"),
        ("same_use", [0.1, -0.1], "same_use has a number below 0 or not finite"),
        ("week_sd", -5, "week_sd is -5, not a number of 0 or more"),
        ("partitions", [], "partition is 0, and there are 0"),
        ("habits", [], "habits is empty"),
        ("habits", [{}], "it has no 'users'"),
        ("fitted_to", {}, "it has no 'jobs_per_day'"),
    ],
)
def test_a_model_with_a_wrong_entry_is_refused_by_the_name_of_the_entry(
    tmp_path: Path, entry: str, value: object, message: str
) -> None:
    document = json.loads(model_to_json(builtin_model("lonestar6-like"))) | {entry: value}
    if value is None:
        del document[entry]
    (tmp_path / "m.json").write_text(json.dumps(document))
    with pytest.raises(TraceError) as refused:
        read_model(tmp_path / "m.json")
    assert str(refused.value) == f"{tmp_path}/m.json:1: not a complete workload model: {message}; fit the model again"
