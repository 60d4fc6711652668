"""Lines of a tree's text with numbers and indents, and errors that name line and column."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from mirage.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Line:
    """A line with more than a comment.

    Attributes:
        source: Name of the file, or another name for the origin of the text.
        number: Counted from 1, blank lines and comments included.
        indent: Spaces before its first word.
        text: Its words, without the comment.
    """

    source: str
    number: int
    indent: int
    text: str

    def fail(self, message: str, at: int = 0) -> NoReturn:
        """Raises an error that starts with the position.

        Args:
            message: What is wrong and what to do.
            at: Index into ``text`` of the wrong part.
        """
        raise ConfigurationError(f"{self.source}:{self.number}:{self.indent + at + 1}: {message}")


def lines_of(text: str, source: str) -> Iterator[Line]:
    """The lines of a text that contain more than a comment.

    Raises:
        ConfigurationError: A line is indented with a tab.
    """
    for number, raw in enumerate(text.splitlines(), start=1):
        code = raw.partition("#")[0].rstrip()
        words = code.lstrip()
        if not words:
            continue
        line = Line(source, number, len(code) - len(words), words)
        before = code[: line.indent]
        if before.strip(" "):
            raise ConfigurationError(
                f"{source}:{number}:{len(before) - len(before.lstrip(' ')) + 1}: "
                "the indent contains another character than a space; use four spaces"
            )
        yield line


class TreeLineReader:
    """The lines of a text, read one after the other."""

    def __init__(self, text: str, source: str) -> None:
        self._lines = list(lines_of(text, source))
        self._at = 0
        self._source = source
        self._end = len(text.splitlines()) + 1

    @property
    def next(self) -> Line | None:
        """The next line; None after the last."""
        return self._lines[self._at] if self._at < len(self._lines) else None

    def take(self, wanted: str) -> Line:
        """Returns the next line and advances.

        Raises:
            ConfigurationError: The text ends before the wanted line.
        """
        line = self.next
        if line is None:
            raise ConfigurationError(f"{self._source}:{self._end}:1: the text ends before {wanted}; add it")
        self._at += 1
        return line

    def take_deeper(self, above: Line, wanted: str) -> Line:
        """Returns the next line, which must be indented more than the one above it.

        Raises:
            ConfigurationError: The text ends, or the next line is not indented more.
        """
        line = self.take(wanted)
        if line.indent <= above.indent:
            line.fail(f"{wanted} is expected here, indented more than line {above.number}")
        return line

    def take_block(self, above: Line) -> list[Line]:
        """Returns all next lines that are indented more than the one above them.

        Raises:
            ConfigurationError: Their indents differ.
        """
        block: list[Line] = []
        while (line := self.next) is not None and line.indent > above.indent:
            if block and line.indent != block[0].indent:
                line.fail(f"the line is indented by {line.indent}, but line {block[0].number} by {block[0].indent}")
            block.append(self.take("a line"))
        return block
