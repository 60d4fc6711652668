"""``mirage evaluate``."""

import json
import signal
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from mirage.cli import main
from mirage.cli.commands.simulation.evaluate_command import evaluate
from mirage.errors import ConfigurationError
from mirage.lab.real.cluster_processes import lives
from mirage.provision.evaluation.evaluation_protocol import LINK_USERS
from tests.support.waiting import until

POLICIES = "reactive,average,lead:4,oracle"


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """Forty days on eight nodes, with waits of hours now and then."""
    random = np.random.default_rng(3)
    path = tmp_path_factory.mktemp("trace") / "jobs.csv"
    lines = ["job_id,submit_s,elapsed_s,limit_s,nodes"]
    for k, submit_s in enumerate(np.sort(random.integers(0, 40 * 86_400, 1400))):
        run_s = random.integers(600, 28_800)
        lines.append(f"{k},{submit_s},{run_s},{2 * run_s},{random.choice([1, 1, 1, 2, 4])}")
    path.write_text("\n".join(lines) + "\n")
    return str(path)


@pytest.fixture
def arguments(trace):
    every = ["--every", "36h", "--step", "1h", "--link-limit", "12:00:00", "--start", "1970-01-10", "--windows", "4"]
    return ["evaluate", trace, "-N", "8", "--discipline", "easy", "--policies", POLICIES, "--workers", "1", *every]


def with_users(trace: str, folder: Path) -> str:
    """The same jobs, of seven users."""
    first, *rows = Path(trace).read_text().splitlines()
    owned = folder / "owned.csv"
    owned.write_text("\n".join([f"{first},user", *(f"{row},u{k % 7}" for k, row in enumerate(rows))]) + "\n")
    return str(owned)


def evaluated(capsys, *arguments):
    assert main([*arguments, "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return json.loads(out)


def test_json_is_one_value_with_every_row(arguments, capsys):
    report = evaluated(capsys, *arguments, "--link-nodes", "1,2")
    assert {(row["policy"], row["link_nodes"]) for row in report["rows"]} == {
        (policy, nodes) for policy in POLICIES.split(",") for nodes in (1, 2)
    }
    assert {"interruption_h", "overlap_h", "zero_share", "cost", "gap_closed", "windows", "load", "cost_ratio"} <= set(
        report["rows"][0]
    )
    reported = {key: report[key] for key in ("protocol", "discipline", "windows", "seed", "start", "nodes", "step_s")}
    assert reported == {
        "protocol": "warm", "discipline": "easy", "windows": 4, "seed": 0, "start": "1970-01-10T00:00:00Z", "nodes": 8,
        "step_s": 3600,
    }  # fmt: skip
    assert {"trace", "version", "command", "intervals"} <= set(report)


def test_links_of_a_user_of_the_trace_at_a_later_hand_over(trace, tmp_path, arguments, capsys):
    owned = with_users(trace, tmp_path)
    words = ["--discipline", "slurm", "--link-user", "heavy", "--hand-over", "3"]
    report = evaluated(capsys, *arguments[:1], owned, *arguments[2:], *words)
    assert (report["link_user"], report["hand_over"]) == ("heavy", 3)
    assert main(["evaluate", owned, *arguments[2:], *words]) == 0
    assert "\nlinks of a heavy user, 1 node for 12:00:00, hand-over 3\n" in capsys.readouterr().out
    named = [*arguments[2:], "--discipline", "slurm", "--link-user", "user:u3"]
    assert main(["evaluate", str(owned), *named]) == 0
    assert "\nlinks of user u3, 1 node for 12:00:00, hand-over 1\n" in capsys.readouterr().out
    assert main(["evaluate", str(owned), *named[:-1], "user:"]) == 2
    assert "'user:' is no owner of links; give newcomer, light, median, heavy, or user:NAME" in capsys.readouterr().err
    assert main([*arguments, *words]) == 1
    assert "links of a heavy user need users with jobs in the 14 days before a window" in capsys.readouterr().err


def test_jobs_are_hidden_by_slurm_conf_or_by_an_option(trace, tmp_path, capsys):
    owned = with_users(trace, tmp_path)
    words = ["evaluate", owned, "-N", "12", "--policies", "reactive,quantile:0.9", "--workers", "1", "--step", "1h"]
    words += ["--link-limit", "12:00:00", "--start", "1970-01-10", "--windows", "1", "--every", "54h"]
    conf = tmp_path / "slurm.conf"

    def cost(private_data: str, *options: str) -> tuple[bool, float]:
        conf.write_text(f"PrivateData={private_data}\nSchedulerParameters=bf_interval=30\n")
        report = evaluated(capsys, *words, "--slurm-conf", str(conf), *options)
        rows = [row["cost"] for row in report["rows"] if row["load"] == "all"]
        return report["private_jobs"], rows[1] - rows[0]

    (hidden, by_own_wait), (visible, by_all_waits) = cost("usage,jobs"), cost("usage")
    assert (hidden, visible) == (True, False)
    assert by_own_wait < by_all_waits, "the wait of the newcomer's only job is shorter than those of most others"
    assert cost("none", "--private-jobs") == (hidden, by_own_wait)
    assert cost("jobs", "--no-private-jobs") == (visible, by_all_waits)
    assert main(["evaluate", trace, *words[2:], "--private-jobs"]) == 1
    assert "1400 of 1400 jobs of the trace name no user" in capsys.readouterr().err
    assert main([*words, "--private-jobs"]) == 0
    assert (
        "\nlinks of a newcomer, 1 node for 12:00:00, hand-over 1, jobs of other users hidden\n"
        in capsys.readouterr().out
    )


def test_every_owner_of_links_is_a_choice():
    (option,) = (one for one in evaluate.params if one.name == "link_user")
    assert option.type.choices == tuple(LINK_USERS)


def test_cost_ratios_give_rows_each(arguments, capsys):
    report = evaluated(capsys, *arguments, "--cost-ratios", "1,5")
    costs = {row["cost_ratio"]: row for row in report["rows"] if (row["policy"], row["load"]) == ("lead:4", "all")}
    assert set(costs) == {1, 5}
    for ratio, row in costs.items():
        assert row["cost"] == pytest.approx(ratio * row["interruption_h"] + row["overlap_h"])


def test_json_has_months_and_differences_from_one_policy(arguments, capsys):
    report = evaluated(capsys, *arguments, "--against", "lead:4")
    assert {(d["policy"], d["against"]) for d in report["differences"]} == {
        (policy, "lead:4") for policy in ("reactive", "average", "oracle")
    }
    all_of_it = {d["policy"]: d for d in report["differences"] if (d["load"], d["month"]) == ("all", "all")}
    cost = {row["policy"]: row["cost"] for row in report["rows"] if row["load"] == "all"}
    assert all_of_it["average"]["cost"] == pytest.approx(cost["average"] - cost["lead:4"])
    assert {(row["month"], row["windows"]) for row in report["months"]} == {("1970-01", 4)}


def test_months_are_printed_where_they_are_requested(arguments, capsys):
    assert main([*arguments, "--by", "month", "--windows", "15", "--against", "average"]) == 0
    out = capsys.readouterr().out
    assert "1970-01: 14 windows" in out
    assert "1970-02: 1 window" in out
    assert "1 windows" not in out
    assert "links of 1 node, 1970-01, difference from average, window by window: 14 windows" in out
    assert main([*arguments, "--against", "average"]) == 0
    assert "1970-0" not in capsys.readouterr().out.partition("\n")[2]


def test_windows_and_start_have_defaults(trace, capsys):
    chosen = ["--link-limit", "12:00:00", "--every", "2d", "--step", "4h", "--policies", "reactive", "--workers", "1"]
    report = evaluated(capsys, "evaluate", trace, "-N", "8", "--discipline", "easy", *chosen)
    assert (report["start"], report["windows"]) == ("1970-01-27T00:00:00Z", 6)


def test_human_output(arguments, capsys):
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert "links of 1 node, all loads: 4 windows" in out
    assert "lead:4" in out
    assert "\x1b" not in out


def test_results_are_stored_and_found_again(arguments, tmp_path, capsys):
    first = evaluated(capsys, *arguments, "--resume", str(tmp_path / "results"))
    again = evaluated(capsys, *arguments, "--resume", str(tmp_path / "results"))
    assert (first["windows_reused"], again["windows_reused"]) == (0, 4)
    assert first["rows"] == again["rows"]


def test_parquet_holds_the_rows_and_where_they_come_from(arguments, tmp_path, capsys):
    parquet = pytest.importorskip("pyarrow.parquet")
    out = tmp_path / "rows.parquet"
    report = evaluated(capsys, *arguments, "--parquet", str(out))
    table = parquet.read_table(out)
    assert table.column("policy").to_pylist() == [row["policy"] for row in report["rows"]]
    assert json.loads(table.schema.metadata[b"mirage"])["seed"] == 0


def test_an_svg_is_well_formed_and_names_everybody(arguments, tmp_path, capsys):
    out = tmp_path / "frontier.svg"
    evaluated(capsys, *arguments, "--link-nodes", "1,2", "--plot", str(out))
    text = " ".join(ElementTree.parse(out).getroot().itertext())
    for name in ("average", "oracle", "reactive", "Links of 2 nodes", "overlap, h"):
        assert name in text


def test_a_page_is_whole(arguments, tmp_path, capsys):
    out = tmp_path / "frontier.html"
    evaluated(capsys, *arguments, "--plot", str(out))
    page = out.read_text()
    HTMLParser().feed(page)
    assert "All loads, links of 1 node" in page
    assert page.count("<svg") == page.count("</svg>")


def test_a_bitmap(arguments, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    out = tmp_path / "frontier.png"
    evaluated(capsys, *arguments, "--plot", str(out))
    assert out.read_bytes().startswith(b"\x89PNG")


def test_the_table_is_printed_before_a_picture_that_cannot_be_drawn(arguments, tmp_path, capsys, monkeypatch):
    def full(*_):
        raise ConfigurationError("the disk is full")

    monkeypatch.setattr("mirage.report.pages.evaluation_page.draw_frontiers", full)
    assert main([*arguments, "--plot", str(tmp_path / "frontier.svg")]) == 1
    assert "reactive" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "status", "complaint"),
    [
        (["--policies", "reactive,what-fi"], 1, "Did you mean 'what-if'?"),
        (["--against", "what-if"], 1, "cannot compare with 'what-if', which is not judged; judged: reactive, average"),
        (["--by", "week"], 2, "'week' is not 'month'"),
        (["--every", "soon"], 2, "'--every': 'soon' is no duration"),
        (["--start", "March"], 2, "'--start': 'March' is no date"),
        (["--windows", "100"], 1, "windows fit"),
        (["--link-nodes", "1,x"], 2, "'--link-nodes': 'x' is no positive whole number"),
        (["--link-nodes", "9"], 1, "a link can never run: it requests 9 nodes"),
        (["--cost-ratios", "1,b"], 2, "'--cost-ratios': 'b' is no number"),
        (["--cost-ratios", "3,1,3.0"], 2, "'--cost-ratios': 3 is named twice"),
        (["--cost-ratios", "1", "--overlap-cost", "2"], 2, "replaces"),
        (["--interruption-cost", "-1"], 1, "costs must not be negative"),
        (["--interruption-cost", "nan"], 1, "costs must not be negative, infinite"),
        (["--overlap-cost", "inf"], 1, "costs must not be negative, infinite"),
        (["--cost-ratios", "1,inf"], 1, "costs must not be negative, infinite"),
        (["--plot", "frontier.docx"], 1, "its name must end in .svg, .html, .png, .pdf"),
        (["--discipline", "esay"], 1, "Did you mean 'easy'?"),
    ],
)
def test_complaints(arguments, capsys, more, status, complaint):
    assert main([*arguments, *more]) == status
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        (["--every", "0"], "'--every': '0' is too short"),
        (["--step", "0"], "'--step': '0' is too short"),
        (["--link-limit", "0"], "'--link-limit': '0' is too short"),
        (["--link-limit", "UNLIMITED"], "'--link-limit': 'UNLIMITED' never ends"),
        (["--policies", ""], "'--policies': the list is empty"),
        (["--policies", " , "], "'--policies': the list is empty"),
        (["--link-nodes", ""], "'--link-nodes': the list is empty"),
        (["--cost-ratios", ","], "'--cost-ratios': the list is empty"),
    ],
)
def test_a_value_that_cannot_be_is_refused_before_the_trace_is_read(more, complaint, capsys):
    assert main(["evaluate", "/no/such/trace", "-N", "8", *more]) == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--plot", "--parquet"])
def test_a_place_that_cannot_be_written_is_refused_before_the_trace_is_read(option, tmp_path, capsys):
    (tmp_path / "folder.svg").mkdir()
    for place in ("/no/folder/x.svg", str(tmp_path / "folder.svg")):
        assert main(["evaluate", "/no/such/trace", "-N", "8", option, place]) == 1
        assert f"cannot write {place}" in capsys.readouterr().err


def test_workers_import_no_module_of_the_working_directory(arguments, tmp_path):
    """A program in another folder does not search the working directory; its workers would."""
    (tmp_path / "work").mkdir()
    for name in ("types", "signal"):
        (tmp_path / "work" / f"{name}.py").write_text("raise SystemExit('a file of the user')\n")
    (tmp_path / "program").write_text(
        "import sys\nif __name__ == '__main__':\n    from mirage.cli import main\n    sys.exit(main())\n"
    )
    command = [sys.executable, str(tmp_path / "program"), *arguments, "--workers", "2"]
    done = subprocess.run(command, cwd=tmp_path / "work", capture_output=True, text=True, timeout=60)
    assert (done.returncode, "reactive" in done.stdout) == (0, True), done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sign", "status"), [(signal.SIGTERM, 128 + signal.SIGTERM), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_workers_end_with_the_process_that_started_them(sign, status, arguments):
    command = [sys.executable, "-m", "mirage", *arguments, "--workers", "2", "--step", "1m"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        until(lambda: len(workers_of(process.pid)) == 2 or process.poll() is not None, 60, "both work")
        workers = workers_of(process.pid)
        process.send_signal(sign)
        assert process.wait(120) == status
    assert len(workers) == 2
    until(lambda: not any(map(lives, workers)), 20, "they end")


def workers_of(pid):
    """The children of a process that multiprocessing has spawned to work."""
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        children = [int(word) for word in file.read().split()]
    return [child for child in children if "spawn_main" in command_of(child)]


def command_of(pid):
    try:
        with open(f"/proc/{pid}/cmdline") as file:
            return file.read()
    except OSError:
        return ""


def test_the_limit_of_the_links_is_printed_and_a_lead_beyond_it_is_named(arguments, capsys):
    links = ["--link-limit", "3h", "--link-nodes", "1,2", "--windows", "1", "--policies", "lead:4"]
    assert main([*arguments, *links]) == 0
    out, err = capsys.readouterr()
    assert "\nlinks of a newcomer, 1, 2 nodes for 03:00:00, hand-over 1\n" in out
    assert err == "mirage: the lead of lead:4, 4 h, is longer than a link of 03:00:00: it submits as early as it can\n"
