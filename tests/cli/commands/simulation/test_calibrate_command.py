"""``mirage calibrate``: the table, the file, and what cannot be."""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path

import numpy as np
import pytest

from mirage.calibration import fit_mechanisms
from mirage.cli import main
from mirage.duration import DAY_S
from mirage.report.terminal.progress import progress_bar
from mirage.sim.slurm_conf.cluster_file import read_cluster_file


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Six weeks of jobs on four nodes, first come, first served."""
    dice = np.random.default_rng(2)
    lines, free_s = ["id,submit,start,end,limit,nodes,user"], np.zeros(4)
    for k, submit_s in enumerate(np.sort(dice.integers(0, 42 * DAY_S, 1_500))):
        node = int(free_s.argmin())
        start_s = int(max(submit_s, free_s[node]))
        free_s[node] = start_s + int(dice.exponential(7_000)) + 60
        lines.append(f"{k},{submit_s},{start_s},{int(free_s[node])},86400,1,u{dice.integers(9)}")
    path = tmp_path_factory.mktemp("trace") / "jobs.csv"
    path.write_text("\n".join(lines))
    return str(path)


MAP = "job_id=id,submit_s=submit,start_s=start,end_s=end,limit_s=limit,nodes=nodes,user=user"


@pytest.fixture
def few_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit_mechanisms, "MOST_TRIES", 6)


@pytest.mark.usefixtures("few_tries")
def test_it_fits_judges_and_writes(trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, page = tmp_path / "cluster.toml", tmp_path / "calibration.html"
    out.write_text("private")
    out.chmod(0o600)
    assert main(["calibrate", trace, "--columns", MAP, "-o", str(out), "--report", str(page)]) == 0
    assert out.stat().st_mode & 0o777 == 0o600, "the file keeps its permissions"
    printed = capsys.readouterr().out
    assert "nothing fitted" in printed
    assert re.search(r"all mechanisms +\d+\.\d% +[01]\.\d\d +\d+\.\d% +[01]\.\d\d", printed)
    assert "follow a start or an end" in printed
    assert re.search(r"fewer nodes were idle than it needed( +\d+%){4}", printed)
    assert re.search(r"\d+% of the moving average of waits after the fit has no", printed)
    assert "What each mechanism explains" in page.read_text()
    assert re.search(r"waits by class\n.*rank correlation\n.*1 node, ", printed)
    found = read_cluster_file(out)
    assert found.cluster.nodes >= 1
    assert found.calibration["mechanisms"]["age"] == found.settings.weight_age
    assert main(["simulate", trace, "--columns", MAP, "--cluster", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["jobs"] == 1_500


@pytest.mark.usefixtures("few_tries")
def test_json_reports_equal_figures(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--fit-from", "1970-01-08", "--judge-from", "1970-01-22", "--until", "1970-02-05"]
    assert main(["calibrate", trace, "--columns", MAP, *words, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["fitted_until"].startswith("1970-01-22")
    assert {"plain", "all", "held"} <= report["fidelity"].keys()
    shares = report["waits"]["judged"]["recorded"]
    assert sum(shares.values()) == pytest.approx(1)
    assert shares["nodes"] > 0.9, "first come, first served, one node each"
    assert 0 < report["fidelity"]["all"]["judged"]["jobs"] < 1_500
    answers = report["answers"]
    assert answers["share"] == pytest.approx(answers["answer"] / answers["jobs"])
    assert 0 < answers["by_chance"] < 0.5
    assert report["declared_by"] == {"scheduler": "Slurm's defaults"}


@pytest.mark.usefixtures("few_tries")
def test_what_is_declared_is_taken_and_not_inferred(
    trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head, *rows = Path(trace).read_text().splitlines()
    named, conf, qos, out = (tmp_path / name for name in ("jobs.csv", "slurm.conf", "qos.txt", "cluster.toml"))
    named.write_text("\n".join([f"{head},qos", *(f"{row},normal" for row in rows)]))
    conf.write_text(
        "Configuration data as of today\nPriorityType = priority/multifactor\nPriorityWeightAge = 640\n"
        + "AccountingStorageType = accounting_storage/slurmdbd\nSchedulerParameters = bf_interval=0\n"
    )
    qos.write_text("Name|Priority|Preempt|MaxJobsPU\nnormal|0||3\n")
    words = ["--columns", f"{MAP},qos=qos", "--slurm-conf", str(conf), "--qos", str(qos), "-o", str(out)]
    assert main(["calibrate", str(named), *words]) == 0
    printed, remarks = capsys.readouterr()
    assert remarks == f"mirage: {conf}: Slurm ignores bf_interval=0, too small a number, and takes its default\n"
    assert f"limit: 3 jobs per user of QOS normal, from {qos} (declared)" in printed
    assert "limit of users" not in printed
    found = read_cluster_file(out)
    assert [(one.jobs, one.qos) for one in found.cluster.limits] == [(3, ("normal",))]
    assert found.calibration["declared_by"] == {"scheduler": str(conf), "qos": str(qos)}
    assert found.sources["limit"] == str(qos)
    assert found.settings.weight_age in {640 * share for share in fit_mechanisms.WEIGHTS}
    assert main(["simulate", str(named), "--columns", f"{MAP},qos=qos", "--cluster", str(out), "--json"]) == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--fit-from", "1970-01-20", "--judge-from", "1970-01-25"],
            "the slice to be fitted, from 1970-01-20T00:00:00Z (--fit-from) to 1970-01-25T00:00:00Z (--judge-from), "
            "spans 5.0 days: it must span 14 at least",
        ),
        (
            ["--judge-from", "1970-02-01", "--until", "1970-01-25"],
            "the slice to be judged, from 1970-02-01T00:00:00Z (--judge-from) to 1970-01-25T00:00:00Z (--until), ends "
            "before it begins: give --until a later date than --judge-from",
        ),
        (
            ["--judge-from", "1970-01-10"],
            "the slice to be fitted, from 1970-01-15T00:00:00Z (--fit-from) to 1970-01-10T",
        ),
        (
            ["--fit-from", "2030-01-01", "--judge-from", "2030-02-01", "--until", "2030-03-01"],
            "there are no jobs that were submitted from 2030-01-01T00:00:00Z to 2030-02-01T00:00:00Z; the trace",
        ),
        (
            ["--fit-from", "2030-01-01"],
            "2030-01-01T00:00:00Z (--fit-from) is not before 1970-02-12T00:00:00Z (the end of the trace): give an",
        ),
        (
            ["--fit-from", "1970-02-01", "--until", "1970-02-01"],
            "1970-02-01T00:00:00Z (--fit-from) is not before 1970-02-01T00:00:00Z (--until): give an earlier date",
        ),
        (["--qos", "/no/such.txt"], "cannot read /no/such.txt"),
        (["--slurm-conf", __file__], "has no settings of a scheduler"),
        (["--report", "x.png"], "its name must end in .html"),
        (["-o", "/no/such/folder/x.toml"], "there is no folder"),
    ],
)
def test_what_cannot_be_is_reported(
    trace: str, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["calibrate", trace, "--columns", MAP, *words]) == 1
    assert message in capsys.readouterr().err


def test_a_short_trace_is_refused_in_its_own_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "".join(f"{k},{k * 3600},{k * 3600 + 60},{k * 3600 + 1800},1,3600\n" for k in range(24 * 28))
    (tmp_path / "jobs.csv").write_text("job_id,submit_s,start_s,end_s,nodes,limit_s\n" + rows)
    assert main(["calibrate", str(tmp_path / "jobs.csv")]) == 1
    needed = "; a calibration needs 42: two weeks to warm up"
    assert "the trace spans 28 days until 1970-01-29T00:00:00Z" + needed in capsys.readouterr().err
    assert main(["calibrate", str(tmp_path / "jobs.csv"), "--until", "1970-01-08"]) == 1
    assert "the trace spans 7 days until 1970-01-08T00:00:00Z" + needed in capsys.readouterr().err


@pytest.mark.usefixtures("few_tries")
def test_progress_is_printed_once_a_minute_without_a_terminal(
    trace: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = iter(range(0, 10**6, 20))
    every_20_s = functools.partial(progress_bar, clock=lambda: float(next(ticks)))
    monkeypatch.setattr("mirage.report.terminal.progress.progress_bar", every_20_s)
    assert main(["calibrate", trace, "--columns", MAP, "--json"]) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("mirage: replays: ")]
    assert re.fullmatch(r"mirage: replays: 3 of [\d,]+ \(\d+%\), after 00:01:00", lines[0])
    assert re.fullmatch(r"mirage: replays: 6 of [\d,]+ \(\d+%\), after 00:02:00", lines[1])


def test_a_trace_without_starts_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "jobs.csv").write_text("id,submit,run,nodes\n1,0,60,1\n2,9,60,1\n")
    columns = "job_id=id,submit_s=submit,elapsed_s=run,nodes=nodes"
    assert main(["calibrate", str(tmp_path / "jobs.csv"), "--columns", columns]) == 1
    assert "there is nothing to calibrate with" in capsys.readouterr().err


def test_where_no_job_waited_there_is_nothing_to_fit_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "".join(f"{k},{k * 3600},{k * 3600},{k * 3600 + 1800},1,3600\n" for k in range(24 * 90))
    (tmp_path / "jobs.csv").write_text("job_id,submit_s,start_s,end_s,nodes,limit_s\n" + rows)
    assert main(["calibrate", str(tmp_path / "jobs.csv"), "-o", str(tmp_path / "cluster.toml")]) == 1
    assert "no job waited of those submitted from 1970-01-15T00:00:00Z" in capsys.readouterr().err
    assert not (tmp_path / "cluster.toml").exists()
