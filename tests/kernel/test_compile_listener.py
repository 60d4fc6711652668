"""Listeners are called for every compiled kernel and at the end."""

from __future__ import annotations

import pytest

from mirage.kernel.compile_listener import compile_listener, compiled, compiling


def test_kernels_are_named_before_they_are_compiled_and_the_end_is_reported_once() -> None:
    heard: list[str | None] = []
    with compile_listener(heard.append):
        compiling("advance")
        compiling("admit")
        compiled("admit")
        compiled("advance")
        compiling("copy_state")
        compiled("copy_state")
    compiling("later")
    compiled("later")
    assert heard == ["advance", "admit", None, "copy_state", None]


def test_the_innermost_listener_is_called() -> None:
    outer: list[str | None] = []
    inner: list[str | None] = []
    with compile_listener(outer.append):
        with compile_listener(inner.append):
            compiling("admit")
        compiling("advance")
        compiled("advance")
    assert (inner, outer) == (["admit"], ["advance", None])


def test_a_listener_may_refuse() -> None:
    def refuse(kernel: str | None) -> None:
        raise ValueError(kernel)

    with pytest.raises(ValueError, match="admit"), compile_listener(refuse):
        compiling("admit")
    heard: list[str | None] = []
    with compile_listener(heard.append):
        compiling("advance")
        compiled("advance")
    assert heard == ["advance", None], "what was refused is not waited for"
