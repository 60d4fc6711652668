"""The root command: what holds for every command."""

import logging
import os
import signal
import subprocess
import sys

import click
import pytest

from mirage.cli import COMMANDS, main, root
from mirage.cli.lazy import LazyCommand, LazyGroup
from mirage.slurm.client import SlurmClient
from mirage.slurm.records import SkippedRecords
from mirage.slurm.runner import SystemRunner

BLAS = "OPENBLAS_NUM_THREADS"

MIRAGE = [sys.executable, "-c", "import sys; from mirage.cli import main; sys.exit(main())"]
SWF = "; Version: 2.2\n1 100 20 60 4 -1 -1 4 600 -1 1 7 2 9 1 5 -1 -1\n"


def every_command(group=root, path=("mirage",)):
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from every_command(command, (*path, name))


ALL = dict(every_command())


@pytest.mark.parametrize("path", ALL, ids=" ".join)
@pytest.mark.parametrize("option", ["-h", "--help"])
def test_every_help_ends_with_examples(path, option, capsys):
    assert main([*path[1:], option]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    usage, _, examples = out.partition("Examples:\n")
    assert usage.startswith(f"Usage: {' '.join(path)}")
    lines = examples.splitlines()
    assert lines
    assert all(line.startswith("    ") and "mirage " in line for line in lines)


def test_commands_without_a_module_do_not_show(capsys):
    group = LazyGroup(
        name="g",
        lazy={"there": COMMANDS["trace"], "absent": LazyCommand("mirage.cli.absent:absent", "Not yet.")},
    )
    assert group.list_commands(click.Context(group)) == ["there"]
    assert group.get_command(click.Context(group), "absent") is None


def test_the_help_lists_commands_by_purpose_one_line_each(capsys):
    assert main(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    titles = [line.removesuffix(":") for line in lines if line.endswith(":") and not line.startswith(" ")]
    purposes = ["Keep a job alive", "Study a cluster", "Learn a policy", "Schedulers of GPUs and of stages", "Set up"]
    assert [title for title in titles if title in purposes] == purposes
    first, following = lines.index("Keep a job alive:"), lines.index("Study a cluster:")
    assert [line.split()[0] for line in lines[first + 1 : following - 1]] == [
        "submit", "adopt", "rehearse", "chain", "agent", "link", "endpoint", "predict",
    ]  # fmt: skip
    for name, command in COMMANDS.items():
        (line,) = [line for line in lines if line.startswith(f"  {name} ")]
        assert line.split(maxsplit=1)[1] == command.summary  # not wrapped


def test_help_imports_nothing_heavy():
    heavy = ("numpy", "numba", "rich", "mirage.trace")
    code = (
        "import sys; from mirage.cli import main; main(['--help']); main(['trace', '--help']); "
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    "words",
    [
        ["chain", "list"],
        ["chain", "show", "x"],
        ["endpoint", "x", "--port", "1"],
        ["agent", "status"],
        ["link", "ready"],
    ],
    ids=" ".join,
)
def test_commands_that_scripts_repeat_start_without_numpy(words, tmp_path):
    code = f"import sys; from mirage.cli import main; main({words}); print('numpy' in sys.modules)"
    environment = os.environ | {"MIRAGE_HOME": str(tmp_path)}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert run.stdout.splitlines()[-1] == "False"


@pytest.mark.parametrize("given", [None, "2"])
def test_numpy_starts_no_threads_unless_the_user_sets_it_and_jobs_inherit_nothing(given):
    """By default OpenBLAS starts one per core, which a login node's limits do not allow."""
    code = (
        "import os; from mirage.cli import main; main(); import numpy; "
        "print(len(os.listdir('/proc/self/task')), os.environ.get('OPENBLAS_NUM_THREADS'))"
    )
    names = {name: value for name, value in os.environ.items() if name not in ("OMP_NUM_THREADS", BLAS)}
    done = subprocess.run(
        [sys.executable, "-c", code, "--version"],
        env=names | ({BLAS: given} if given else {}),
        capture_output=True,
        text=True,
    )
    threads = min(int(given or 1), len(os.sched_getaffinity(0)))
    assert done.stdout.splitlines()[1:] == [f"{threads} {given}"], done.stderr


@pytest.mark.parametrize("value", ["0", "-1", "abc", "", "1.5"])
def test_a_wrong_number_of_threads_is_named_before_numba_reads_it(value, monkeypatch, capsys):
    monkeypatch.setenv("NUMBA_NUM_THREADS", value)
    assert main(["simulate", "jobs.csv"]) == 1
    what = f"NUMBA_NUM_THREADS={value!r} is not a number of threads"
    assert capsys.readouterr().err == f"mirage: error: {what}; set a whole number from 1, or unset it\n"


def test_little_memory_is_a_warning():
    """Below it, libraries end or hang without a message."""
    for limit_kib, warned in ((400_000, True), (600_000, False)):
        words = ["sh", "-c", f'ulimit -v {limit_kib}; exec "$@"', "sh", *MIRAGE, "--version"]
        printed = subprocess.run(words, capture_output=True, text=True).stderr
        assert ("memory is limited to 390 MiB (ulimit -v), and the simulator needs 512 MiB" in printed) is warned


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("mirage 0.")


@pytest.mark.parametrize("words", [["tarce"], ["trace", "info"], ["trace", "info", "x", "--colour"]])
def test_wrong_usage_is_2(words, capsys):
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "Usage:" in err


@pytest.mark.parametrize(
    ("words", "suggestion"),
    [
        (["sumbit"], "No such command 'sumbit'. Did you mean 'submit'?"),
        (["trace", "ifno"], "Did you mean 'info'?"),
        (["chain", "lst"], "Did you mean 'list'?"),
        (["lab", "dwn"], "Did you mean 'down'?"),
        (["agent", "sttaus"], "Did you mean 'status'?"),
        (["link", "raedy"], "Did you mean 'ready'?"),
        (["lab", "qqq"], "There are "),
        (["trace", "info", "x", "--jsno"], "Did you mean '--json'?"),
    ],
    ids=" ".join,
)
def test_a_mistyped_command_or_option_is_answered_with_the_nearest(words, suggestion, capsys):
    assert main(words) == 2
    assert suggestion in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [["x" * 10_000], ["trace", "info", "x", "--" + "y" * 10_000], ["trace", "info", "a", "z" * 9_000]]
)
def test_what_was_typed_is_quoted_only_so_far(words, capsys):
    assert main(words) == 2
    assert len(capsys.readouterr().err) < 1_000


def test_a_refusal_is_1_and_one_line_on_stderr(capsys):
    assert main(["trace", "info", "absent.log"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "mirage: error: absent.log: cannot be read: No such file or directory; check the path\n"


def test_a_deleted_working_directory_is_named(tmp_path, monkeypatch, capsys):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    for words in (["trace", "info", "jobs.csv"], ["trace", "generate", "-o", "jobs.csv"]):
        assert main(words) == 1
        error = capsys.readouterr().err
        assert error.count("the working directory is gone") == error.count("\n") == 1


def test_ctrl_c_is_130():
    with subprocess.Popen(
        [*MIRAGE, "trace", "info", "-"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a test run in the background ignores it
    ) as process:
        while not blocked_on_read(process.pid):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
    assert process.returncode == 130, err
    assert err.strip() == "mirage: interrupted"


def blocked_on_read(pid: int) -> bool:
    """Whether the process has come to wait for its standard input."""
    try:
        with open(f"/proc/{pid}/wchan") as file:
            return "pipe" in file.read()
    except OSError:
        pytest.skip("no /proc/PID/wchan here")


@pytest.fixture
def swf(tmp_path):
    path = tmp_path / "log.swf"
    path.write_text(SWF)
    return path


def test_a_broken_pipe_is_quiet(swf):
    with subprocess.Popen([*MIRAGE, "trace", "info", swf], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        err = process.stderr.read()
    assert err == b""
    assert process.returncode == 1


CLOSED = "mirage: error: standard output is closed; open it, or discard the output with >/dev/null\n"
ABSENT = "mirage: error: there is no private cluster in none; start one with `mirage lab up none`\n"


@pytest.mark.parametrize(
    ("words", "closed", "status", "error"),
    [
        (["--version"], "2>&-", 0, ""),
        (["--version"], ">&-", 1, CLOSED),
        (["--version"], ">&- 2>&-", 1, ""),
        (["link", "--help"], ">&-", 1, CLOSED),
        (["lab", "status", "none"], ">&-", 1, ABSENT),
        (["lab", "status", "none"], "2>&-", 1, ""),
    ],
)
def test_only_an_output_that_is_lost_is_an_error(words, closed, status, error):
    run = subprocess.run(["sh", "-c", f'"$@" {closed}', "sh", *MIRAGE, *words], capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (status, error)


def test_a_full_disk_under_stdout_is_reported(swf):
    with open("/dev/full", "w") as full:
        run = subprocess.run([*MIRAGE, "trace", "info", swf], stdout=full, stderr=subprocess.PIPE, text=True)
    assert run.returncode == 1
    assert run.stderr == "mirage: error: cannot write the output: No space left on device; name another place\n"


@pytest.mark.parametrize(
    ("raised", "reported"),
    [
        (
            "24, 'Too many open files', '/etc/passwd'",
            "Too many open files; raise the limit (ulimit -n), or use fewer --workers",
        ),
        (
            "11, 'Resource temporarily unavailable'",
            "Resource temporarily unavailable; raise the limit (ulimit -u), or use fewer --workers",
        ),
        (
            "'no x.so'",
            "no x.so; if memory is limited (ulimit -v), raise the limit, otherwise install Mirage again",
        ),
    ],
)
def test_a_scarce_resource_is_no_place_to_write_to(raised, reported):
    assert raising(f"OSError({raised})") == (1, f"mirage: error: {reported}\n")


def test_a_library_that_cannot_be_loaded_is_not_called_missing():
    remedy = "if memory is limited (ulimit -v), raise the limit, otherwise install Mirage again"
    reported = f"mirage: error: libssl.so.3: failed to map segment; {remedy}\n"
    assert raising("ImportError('libssl.so.3: failed to map segment')") == (1, reported)


@pytest.mark.parametrize(
    ("library", "text"),
    [
        ("sqlalchemy", "raise ImportError('for another Python\\n\\nread this')"),
        ("sqlalchemy", ""),
        ("click", "raise ImportError('for another Python')"),
        ("click", "print 'for another Python'"),
        ("click", ""),
    ],
)
def test_a_library_of_another_python_on_pythonpath_is_named(tmp_path, library, text):
    (tmp_path / library).mkdir()
    (tmp_path / library / "__init__.py").write_text(text)
    variables = {**os.environ, "PYTHONPATH": str(tmp_path), "MIRAGE_HOME": str(tmp_path / "home")}
    command = [sys.executable, "-m", "mirage", "chain", "list"]
    run = subprocess.run(command, env=variables, capture_output=True, text=True)
    reported = f"{library} of {tmp_path}, a folder of PYTHONPATH, cannot be used here; unset PYTHONPATH"
    assert (run.returncode, run.stderr) == (1, f"mirage: error: {reported}\n")


def raising(error):
    code = (
        "import sys; from mirage import cli\n"
        f"def full(**_): raise {error}\n"
        "cli.root.main = full; sys.exit(cli.main([]))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    return run.returncode, run.stderr


def test_a_folder_that_cannot_be_made_is_named():
    run = subprocess.run([*MIRAGE, "lab", "up", "/dev/null/lab"], capture_output=True, text=True)
    assert run.returncode == 1
    assert run.stderr.startswith("mirage: error: cannot write /dev/null/lab")
    assert run.stderr.endswith("Not a directory; name another place\n")


def test_a_terminal_without_utf8_gets_what_it_can_show(tmp_path):
    path = tmp_path / "sacct.txt"
    path.write_text("JobID|Partition|Submit|Start|End|NNodes\n1|größe|1|10|90|2\n2|größe|5|90|95|2\n")
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    run = subprocess.run([*MIRAGE, "trace", "info", path], capture_output=True, text=True, env=environment)
    assert (run.returncode, run.stderr) == (0, "")
    assert "gr??e 2" in run.stdout
    assert "########" in run.stdout


def test_records_that_are_left_out_are_a_warning_with_their_number_and_the_first(
    caplog: pytest.LogCaptureFixture,
) -> None:
    main(["--version"])
    client = SlurmClient(SystemRunner())
    for _ in range(2):
        client._warn_once("squeue", SkippedRecords(2, "squeue: warning: old\nformat"))
    (record,) = caplog.records
    assert logging.lastResort is not None
    assert logging.lastResort.format(record) == (
        "mirage: warning: squeue printed 2 records that cannot be read; left out, the first is: "
        "squeue: warning: old; format"
    )


def test_a_memory_error_without_a_size_is_one_sentence(monkeypatch, capsys):
    def exhausted(*_, **__):
        raise MemoryError

    monkeypatch.setattr(root, "main", exhausted)
    assert main([]) == 1
    assert capsys.readouterr().err == ("mirage: error: not enough memory; describe a smaller cluster or less work\n")


def test_a_cluster_too_large_for_the_memory_is_refused_in_one_line(tmp_path, capsys):
    path = tmp_path / "jobs.csv"
    path.write_text("job_id,submit_s,elapsed_s,limit_s,nodes\n1,0,60,120,1\n")
    assert main(["simulate", str(path), "-N", "1000000", "--gpus-per-node", "1000000"]) == 1
    printed = capsys.readouterr().err
    assert printed.startswith("mirage: error: not enough memory: Unable to allocate ")
    assert printed.count("\n") == 1
