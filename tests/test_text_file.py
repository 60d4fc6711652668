"""Text files of users: their errors name the file, the place and the remedy."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from mirage.errors import ConfigurationError
from mirage.text_file import read_text_file, read_toml_file


def test_a_text_is_read_without_its_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_bytes(b"\xef\xbb\xbfa = 3\n")
    assert read_text_file(tmp_path / "a.toml", "") == "a = 3\n"
    assert read_toml_file(tmp_path / "a.toml", "") == {"a": 3}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a = '\xe8'", "cannot read {}: it is not text in UTF-8: byte 6 is 0xe8; do this"),
        (b"a = 1\nb =", "{} is not TOML: Invalid value (at end of document); correct it there"),
        (b"a = " + b"[" * 9_000, "{} is not TOML: it is nested too deeply; correct it there"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a.toml").write_bytes(content)
    with pytest.raises(ConfigurationError) as refused:
        read_toml_file(tmp_path / "a.toml", "do this")
    assert str(refused.value) == message.format(tmp_path / "a.toml")


def test_a_number_of_5_000_digits_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(f"a = {'9' * 5000}")
    with pytest.raises(ConfigurationError, match=r"is not TOML: .*4300 digits"):
        read_toml_file(tmp_path / "a.toml", "do this")


def test_an_absent_file_is_an_error_unless_its_name_is_fixed(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot read .*none: No such file or directory; do this$"):
        read_text_file(tmp_path / "none", "do this")
    with pytest.raises(FileNotFoundError):
        read_text_file(tmp_path / "none", "do this", at_rest=True)
    (tmp_path / "link").symlink_to("none")
    with pytest.raises(ConfigurationError, match=r"link: it is a link to a missing file; do this$"):
        read_text_file(tmp_path / "link", "do this", at_rest=True)


def test_a_pipe_is_read_only_where_the_user_has_named_it(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(ConfigurationError, match=r"pipe: it is not a file; do this$"):
        read_text_file(pipe, "do this", at_rest=True)
    threading.Thread(target=pipe.write_text, args=("a = 3",)).start()
    assert read_toml_file(pipe, "do this") == {"a": 3}


def test_a_device_is_not_read() -> None:
    with pytest.raises(ConfigurationError, match=r"^cannot read /dev/null: it is a device, .*; do this$"):
        read_text_file("/dev/null", "do this")
