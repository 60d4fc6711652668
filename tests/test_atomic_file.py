"""A file is there whole, or as it was."""

import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mirage.atomic_file import check_place, write_atomically, write_output
from mirage.errors import ConfigurationError
from mirage.trace.table import JobTable
from mirage.trace.write_trace import write_trace


def test_a_failure_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    path = tmp_path / "out"
    path.write_bytes(b"old")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("path", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_what_standard_output_is_appended_to_stays(path, tmp_path):
    code = f"from mirage.atomic_file import write_output; print('1'); write_output({path!r}, '2\\n'); print('3')"
    (tmp_path / "all").write_text("0\n")
    with (tmp_path / "all").open("ab") as file:
        subprocess.run([sys.executable, "-c", code], stdout=file, check=True)
    assert (tmp_path / "all").read_text() == "0\n1\n2\n3\n"


def test_a_rest_of_a_killed_process_with_our_number_blocks_no_write(tmp_path):
    (tmp_path / f".out.{os.getpid()}.part").write_bytes(b"half")
    write_atomically(tmp_path / "out", b"new")
    assert (tmp_path / "out").read_bytes() == b"new"


def test_threads_write_one_file_at_a_time_or_together(tmp_path):
    def write(number):
        for _ in range(20):
            write_atomically(tmp_path / "out", number * 5000)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(write, (b"1", b"2", b"3", b"4")))
    assert (tmp_path / "out").read_bytes() in (b"1" * 5000, b"2" * 5000, b"3" * 5000, b"4" * 5000)
    assert list(tmp_path.iterdir()) == [tmp_path / "out"]


def test_a_link_stays_a_link(tmp_path):
    path = tmp_path / "out"
    path.write_bytes(b"old")
    (tmp_path / "link").symlink_to(path)
    write_atomically(tmp_path / "link", b"new")
    assert (path.read_bytes(), (tmp_path / "link").is_symlink()) == (b"new", True)


@pytest.mark.parametrize(("umask", "mode", "given"), [(0o022, 0o600, 0o600), (0o022, 0o666, 0o644), (0, 0o700, 0o700)])
def test_permissions_are_those_requested_less_the_umask(tmp_path, umask, mode, given):
    before = os.umask(umask)
    try:
        write_atomically(tmp_path / "out", b"", mode)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == given


def test_a_device_is_written_to_directly():
    write_atomically("/dev/null", b"gone")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


@pytest.mark.parametrize(
    ("content", "written"), [("größe", "größe".encode()), (b"\x89PNG", b"\x89PNG"), ("\ud800!", b"?!"), ("", b"")]
)
def test_what_is_written(content: str | bytes, written: bytes, tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("an older and longer one")
    write_output(str(path), content)
    assert path.read_bytes() == written
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_is_reported_in_the_system_s_words(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as refused:
        write_output(tmp_path / "absent" / "x", "text")
    assert str(refused.value) == f"cannot write {tmp_path}/absent/x: No such file or directory; name another place"


def test_a_loop_of_links_is_no_place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one").symlink_to("other")
    (tmp_path / "other").symlink_to("one")
    with pytest.raises(ConfigurationError, match="cannot write one: Too many levels of symbolic links; name another"):
        check_place("one")
    for allowed in ("new", "absent/new", tmp_path):
        check_place(allowed)


def test_a_working_directory_that_is_gone_is_named(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(ConfigurationError, match="the working directory is gone; change into one that exists"):
        check_place("new")
    check_place(tmp_path / "new")


def test_a_file_that_is_replaced_is_not_opened_to_others(tmp_path):
    path = tmp_path / "out"
    path.touch(0o440)
    path.chmod(0o440)
    write_atomically(path, b"new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o440


def test_a_pipe_without_a_reader_is_no_error_of_the_file(tmp_path):
    reader, writer = os.pipe()
    os.close(reader)
    for write in (
        lambda path: write_output(path, "text"),
        lambda path: write_trace(JobTable.build(["1"]), path, "csv"),
    ):
        with pytest.raises(BrokenPipeError):
            write(f"/dev/fd/{writer}")
    os.close(writer)
