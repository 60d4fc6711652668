"""Models that are no models: the error names the file and the cause."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirage.errors import TraceError
from mirage.trace.workload.workload_json import read_model


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
