"""Progress of the first compilation, on standard error: it takes most of a minute."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TextIO

import click


@dataclass
class FirstCompilation:
    """Reports that kernels compile: a counting line in a terminal, one plain line elsewhere."""

    stream: TextIO
    kernels: int = 0

    def __call__(self, kernel: str | None) -> None:
        """Reports a kernel, or the end; implements ``mirage.kernel.compile_listener.Listener``."""
        in_terminal = self.stream.isatty()
        if kernel is None:
            if in_terminal:
                click.echo("\r\033[K", file=self.stream, nl=False)
            return
        self.kernels += 1
        text = "mirage: compiling, once (up to a minute; the result is cached)"
        if in_terminal:
            click.echo(f"\r\033[K{text}: {self.kernels} kernels", file=self.stream, nl=False)
        elif self.kernels == 1:
            click.echo(f"{text} ...", file=self.stream)
