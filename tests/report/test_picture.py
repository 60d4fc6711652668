"""Pictures as data: pictures under one heading, and where their parts lie."""

from __future__ import annotations

from mirage.report.picture import Bar, Label, Moved, Picture, Stroke, line, stacked, text_px


def test_pictures_are_stacked_under_a_heading_and_notes() -> None:
    first = Picture(300, 100, [line(0, 0, 9, 9, "grid")], "First.")
    second = Picture(200, 40, [Bar(0, 0, 5, 5, "gap")], "Second.")
    found = stacked([("one", first), ("", second)], "Heading", ["a note", "", "another"])
    assert (found.width, found.height) == (300 + 28, 60 + 36 + 24 + 100 + 20 + 40 + 20)
    assert found.description == "Heading: a note, another. First. Second."
    assert found.marks == [
        Bar(0, 0, 328, 300, "card"),
        Label("Heading", 14, 30, "strong", size=18),
        Label("a note", 14, 52),
        Label("another", 14, 70),
        Label("one", 14, 60 + 36 + 16, "strong", size=14),
        Moved(first.marks, 14, 60 + 36 + 24),
        Moved(second.marks, 14, 60 + 36 + 24 + 100 + 20),
    ]


def test_lines_have_two_ends_and_texts_a_width() -> None:
    assert line(1, 2, 3, 4, "grid") == Stroke(((1, 2), (3, 4)), "grid")
    assert (text_px("abcd"), text_px("abcd", 20)) == (0.6 * 12 * 4, 0.6 * 20 * 4)
