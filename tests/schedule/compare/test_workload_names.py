"""Names of workloads: short, and never the same for two files."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirage.errors import ConfigurationError
from mirage.schedule.compare.workload_names import workload_name, workload_names


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["/d/a/w.csv"], ["w"]),
        (["/d/a/w.csv", "/d/a/v.csv.gz"], ["w", "v"]),
        (["/d/a/w.csv", "/d/b/w.csv.gz"], ["a/w", "b/w"]),
        (["/x/a/w.csv", "/y/a/w.csv", "/y/a/v.csv"], ["x/a/w", "y/a/w", "v"]),
        (["/x/p/a/w.csv", "/y/p/a/w.csv"], ["x/p/a/w", "y/p/a/w"]),
        (["/d/a/w.csv", "/d/a/w.csv.gz", "/d/a/w.swf"], ["w.csv", "w.csv.gz", "w.swf"]),
        (["/a/w.csv", "/x/a/w.csv"], ["a/w", "x/a/w"]),
        (["/x/a/w.csv", "/y/a/w.csv", "/y/a/w.swf"], ["x/a/w", "y/a/w.csv", "y/a/w.swf"]),
        (["/w.csv", "/d/w.csv"], ["w", "d/w"]),
        (["/d/mean.csv", "/d/w.csv"], ["mean.csv", "w"]),
    ],
)
def test_names_get_folders_only_where_they_need_them(paths: list[str], names: list[str]) -> None:
    assert list(workload_names(paths)) == names
    assert workload_name(paths[0]) == workload_names(paths[:1])[0]


def test_the_same_file_twice_is_refused_by_any_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.csv").touch()
    (tmp_path / "link.csv").symlink_to("w.csv")
    with pytest.raises(ConfigurationError, match=r"workloads: w\.csv is given twice; name each once"):
        workload_names(["w.csv", "w.csv"])
    for other in ("./w.csv", "link.csv", f"{tmp_path}/w.csv"):
        with pytest.raises(ConfigurationError, match=r"w\.csv and .*\.csv are the same file; name it once"):
            workload_names(["w.csv", other])


def test_links_to_different_files_have_their_own_names(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "w.csv").touch()
        (tmp_path / f"{folder}.csv").symlink_to(Path(folder) / "w.csv")
    links = [str(tmp_path / name) for name in ("a.csv", "b.csv")]
    assert workload_names(links) == ("a", "b")
