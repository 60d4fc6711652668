"""Mappings of columns in an option or a file, and invalid ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirage.errors import ConfigurationError, UnknownName
from mirage.trace.formats.column_mapping import Source, parse_columns, read_mapping

OPTION = "submit_s=submit_time,limit_s=timelimit[min], nodes = num nodes ,user=uid,gpus==4"


def plain(text: str) -> dict[str, tuple[str, str, str]]:
    return {target: (s.column, s.unit, s.constant) for target, s in parse_columns(text).sources.items()}


def test_an_option_names_columns_units_and_constants() -> None:
    assert plain(OPTION) == {
        "submit_s": ("submit_time", "", ""),
        "limit_s": ("timelimit", "min", ""),
        "nodes": ("num nodes", "", ""),
        "user": ("uid", "", ""),
        "gpus": ("", "", "4"),
    }
    assert parse_columns(OPTION).columns == ["submit_time", "timelimit", "num nodes", "uid"]
    assert parse_columns(OPTION).sources["limit_s"] == Source("timelimit", "min", text="timelimit[min]")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "submit_s=when[%d/%m/%Y, %H:%M],nodes=n",
            {"submit_s": ("when", "%d/%m/%Y, %H:%M", ""), "nodes": ("n", "", "")},
        ),
        ("limit_s=Time [h]", {"limit_s": ("Time", "h", "")}),
        ("limit_s=Time [x][ms]", {"limit_s": ("Time [x]", "ms", "")}),
        ("name=a=b", {"name": ("a=b", "", "")}),
        ("state==COMPLETED,", {"state": ("", "", "COMPLETED")}),
        ("gpus=tres[tres]", {"gpus": ("tres", "tres", "")}),
        ("limit_s=timelimit[slurm]", {"limit_s": ("timelimit", "slurm", "")}),
    ],
)
def test_odd_names_and_units(text: str, expected: dict[str, tuple[str, str, str]]) -> None:
    assert plain(text) == expected


@pytest.mark.parametrize("prefix", ["@", ""])
def test_a_file_maps_alike(prefix: str, tmp_path: Path) -> None:
    path = tmp_path / "ours.toml"
    path.write_text(
        'submit_s = "submit_time"\nlimit_s = "timelimit[min]"\nnodes = "num nodes"\nuser = "uid"\ngpus = 4\n'
    )
    assert parse_columns(f"{prefix}{path}") == parse_columns(OPTION)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "--columns maps no column; write it as submit_s=submit_time"),
        ("submit_s", "--columns: 'submit_s' has no column = source; write it as submit_s=submit_time"),
        ("submit_s=", "'submit_s=' has no column = source"),
        ("x[]", "'x[]' has no column = source"),
        ("name=a[b,c", "'c' has no column = source"),
        ("submit_s=x[ ]", "'x[ ]' has an empty unit; leave out the brackets"),
        ("@", "--columns @ names no file; write it as"),
        ("submit_s=a,submit_s=b", "names submit_s twice"),
        ("submit_s=a[weeks]", "submit_s has no unit 'weeks'; it takes ms, s, min, h, d, or a form as"),
        ("submit_s=a[%H:%M]", "submit_s: the form %H:%M reads no whole date; write one as %d.%m.%Y %H:%M"),
        ("submit_s=a[%d.%m.]", "the form %d.%m. reads no whole date"),
        ("submit_s=a[%Q]", "the form %Q reads no whole date"),
        ("limit_s=a[%H]", "limit_s has no unit '%H'; it takes ms, s, min, h, d, slurm"),
        ("nodes=a[min]", "nodes has no unit 'min'; it takes tres"),
        ("memory_mib=a[GB]", "memory_mib has no unit 'GB'; it takes KiB, MiB, GiB, TiB, tres"),
        ("user=a[s]", "user has no unit 's'; it takes no unit"),
        ("priority=a[tres]", "priority has no unit 'tres'; it takes no unit"),
        ("wait_s=a,start_s=b,submit_s=c", "wait_s is added to submit_s"),
        ("wait_s=a", "wait_s is added to submit_s"),
    ],
)
def test_what_is_no_mapping_is_refused(text: str, words: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse_columns(text)
    assert words in str(refused.value)


def test_an_unknown_column_of_the_job_table_names_the_nearest_and_all() -> None:
    with pytest.raises(UnknownName) as refused:
        parse_columns("limits=a")
    assert "unknown column of the job table 'limits'. Did you mean 'limit_s'? Known: account, cpus" in str(
        refused.value
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "No such file or directory; name a TOML file with a line for each column"),
        ("submit_s = ", "is not TOML"),
        ("submit_s = true\n", "submit_s is True; write"),
        ('submit_s = ["a"]\n', "submit_s is ['a']; write"),
        ('submit_s = ""\n', "submit_s is ''; write"),
        ("", "maps no column"),
    ],
)
def test_a_file_of_something_else_is_refused(text: str | None, words: str, tmp_path: Path) -> None:
    path = tmp_path / "ours.toml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigurationError) as refused:
        read_mapping(str(path))
    assert str(path) in str(refused.value)
    assert words in str(refused.value)
