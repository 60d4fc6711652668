"""Bitmaps: the marks of a picture have their places and colours, as the pixels show."""

from __future__ import annotations

import io
import os
import subprocess
import sys

import numpy as np
import pytest

from mirage.errors import ConfigurationError
from mirage.extras import install
from mirage.report.picture import Bar, Bars, Dot, Drawn, Label, Moved, Picture, Shape, Stroke, text_px
from mirage.report.picture_file import png_of
from mirage.report.theme import LIGHT

pytest.importorskip("matplotlib", reason="pip install mirage-hpc[plot]")

WIDTH, HEIGHT = 120, 80
SCALE = 1.5
"""Pixels of the bitmap for a pixel of the picture."""


def pixels(*marks: Drawn) -> np.ndarray:
    """Shape (rows, columns, 3), 0 to 255."""
    from matplotlib.image import imread

    found = imread(io.BytesIO(png_of(Picture(WIDTH, HEIGHT, marks, ""))), format="png")
    return np.asarray(np.round(found[:, :, :3] * 255), dtype=int)


def colour(role: str) -> tuple[int, int, int]:
    code = LIGHT[role]
    return int(code[1:3], 16), int(code[3:5], 16), int(code[5:7], 16)


def box(found: np.ndarray, role: str, near: int = 3) -> tuple[float, float, float, float]:
    """Left, top, right and bottom edge of all pixels of a colour, in pixels of the picture."""
    rows, columns = np.nonzero((np.abs(found - colour(role)) <= near).all(axis=2))
    assert len(rows), f"nothing has the colour {role}"
    return columns.min() / SCALE, rows.min() / SCALE, (columns.max() + 1) / SCALE, (rows.max() + 1) / SCALE


def test_a_bitmap_has_the_size_and_the_ground_of_the_picture() -> None:
    found = pixels()
    assert found.shape == (HEIGHT * SCALE, WIDTH * SCALE, 3)
    assert (found == colour("card")).all()


def test_rectangles_and_polygons_are_filled_where_they_lie() -> None:
    found = pixels(Bar(10, 20, 30, 12, "link-a"), Bar(60, 4, 50, 16, "gap", rx=4), Bar(5, 5, 0, 9, "overlap"))
    assert box(found, "link") == pytest.approx((10, 20, 40, 32), abs=0.7)
    assert box(found, "gap") == pytest.approx((60, 4, 110, 20), abs=0.7)
    assert (found[6, 90] != colour("gap")).any(), "its corners are round"
    assert (found[round(20.7 * SCALE), round(10.7 * SCALE)] == colour("link")).all(), "those of the other are not"
    assert not (found == colour("overlap")).all(axis=2).any()
    triangle = pixels(Shape([(10, 10), (70, 10), (10, 50)], "cut"))
    assert box(triangle, "series-1") == pytest.approx((10, 10, 70, 50), abs=3)
    assert (triangle[45, 90] == colour("card")).all()


def test_many_rectangles_have_one_height() -> None:
    found = pixels(Bars([(10, 5, 20), (60, 5, 30), (60, 40, 10)], 8, "s3 flat"))
    assert box(found, "series-3") == pytest.approx((10, 5, 90, 48), abs=0.7)
    assert (found[round(9 * SCALE), round(45 * SCALE)] == colour("card")).all()
    assert (found[round(44 * SCALE), round(80 * SCALE)] == colour("card")).all()
    assert (found[round(44 * SCALE), round(65 * SCALE)] == colour("series-3")).all()


def test_points_are_circles_with_an_edge() -> None:
    found = pixels(Dot(50, 40, 10, "waited"))
    left, top, right, bottom = box(found, "good", 40)
    assert (left, top, right, bottom) == pytest.approx((38.75, 28.75, 61.25, 51.25), abs=0.8)
    assert (found[60, 75] == colour("card")).all(), "it is hollow"
    assert (box(pixels(Dot(50, 40, 10, "cut")), "series-1")) == pytest.approx((40, 30, 60, 50), abs=1)


def test_lines_have_their_width_and_dashes() -> None:
    found = pixels(Stroke([(10, 20), (100, 20)], "capacity"), Stroke([(10, 60), (100, 60)], "limit"))
    assert box(found, "series-2", 40) == pytest.approx((10, 19, 100, 21), abs=0.7)
    row = (np.abs(found[90] - colour("muted")) <= 90).all(axis=1)
    runs = int((np.diff(row.astype(int)) == 1).sum()) + int(row[0])
    assert 10 <= runs <= 13, "dashes of four pixels and gaps of four"
    plain = (found[30] != colour("card")).any(axis=1)
    assert plain[15 + 1 : 150 - 1].all()


def test_a_pale_mark_lets_its_ground_through() -> None:
    found = pixels(Bar(10, 10, 50, 50, "gap-band"))
    expected = np.array(colour("card")) * 0.84 + np.array(colour("gap")) * 0.16
    assert found[45, 50] == pytest.approx(expected, abs=2)


def test_later_marks_cover_earlier_ones() -> None:
    red_last = pixels(
        Bar(10, 10, 50, 50, "overlap"), Stroke([(0, 30), (100, 30)], "submit"), Bar(20, 20, 30, 30, "gap")
    )
    assert (red_last[45, 45] == colour("gap")).all()
    assert not (red_last[45, 20] == colour("overlap")).all()


@pytest.mark.parametrize(("anchor", "share"), [("", 0.0), ("start", 0.0), ("middle", 0.5), ("end", 1.0)])
def test_texts_begin_end_or_have_their_middle_at_their_place(anchor: str, share: float) -> None:
    left, top, right, bottom = box(pixels(Label("HHHH", 60, 50, "ink", anchor)), "ink", 60)
    assert left + share * (right - left) == pytest.approx(60, abs=2)
    assert bottom == pytest.approx(50, abs=1), "its baseline"
    assert 7 < bottom - top < 11
    assert right - left == pytest.approx(text_px("HHHH"), rel=0.25)


def test_texts_have_their_size_weight_and_colour() -> None:
    def ink(label: Label, role: str = "ink") -> tuple[float, int]:
        found = pixels(label)
        _, top, _, bottom = box(found, role, 60)
        return bottom - top, int((np.abs(found - colour(role)) <= 60).all(axis=2).sum())

    tall, plain = ink(Label("HH", 20, 60, "ink"))
    assert ink(Label("HH", 20, 60, "ink", size=24))[0] == pytest.approx(2 * tall, abs=1.5)
    assert ink(Label("HH", 20, 60, "strong"))[1] > 1.2 * plain
    assert ink(Label("HH", 20, 60), "muted")[1] > 20
    assert ink(Label("$H$", 20, 60, "ink"))[1] > ink(Label("H", 20, 60, "ink"))[1], "dollar signs are letters"
    halo = pixels(Bar(0, 0, WIDTH, HEIGHT, "gap"), Label("H", 50, 50, "halo"))
    assert box(halo, "card") != pytest.approx(box(pixels(Label("H", 50, 50)), "muted"), abs=0.1)
    assert box(halo, "card")[0] < box(pixels(Label("H", 50, 50)), "muted", 60)[0], "a stroke below its letters"


def test_marks_are_moved_with_their_group() -> None:
    group = Moved([Bar(0, 0, 20, 10, "link-a"), Moved([Dot(0, 0, 6, "cut")], 5, 30)], 50, 20)
    found = pixels(group)
    assert box(found, "link") == pytest.approx((50, 20, 70, 30), abs=0.7)
    assert box(found, "series-1") == pytest.approx((49, 44, 61, 56), abs=1)
    inside = pixels(Moved([Stroke([(0, 0), (20, 0)], "capacity"), Shape([(0, 10), (20, 10), (20, 20), (0, 20)], "cut"),
                           Bars([(40, 0, 10)], 10, "gap"), Label("H", 40, 40, "ink")], 20, 30))  # fmt: skip
    assert box(inside, "series-2", 40)[:2] == pytest.approx((20, 29), abs=0.7)
    assert box(inside, "series-1")[:2] == pytest.approx((20, 40), abs=0.7)
    assert box(inside, "gap")[:2] == pytest.approx((60, 30), abs=0.7)
    assert box(inside, "ink", 60)[3] == pytest.approx(70, abs=1)


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ConfigurationError) as refused:
        png_of(Picture(10, 10, [], ""))
    assert str(refused.value) == (f"a plot needs matplotlib, which is not installed; run: {install('plot')}")


def test_the_backend_of_a_notebook_that_is_not_installed_here_is_ignored() -> None:
    code = (
        "from mirage.report.picture import Picture; from mirage.report.picture_file import png_of\n"
        "print(png_of(Picture(9, 9, (), ''))[:4])"
    )
    environment = {**os.environ, "MPLBACKEND": "module://of_no_package.backend_inline"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.stdout == f"{b'%cPNG' % 0x89}\n", done.stderr


def test_a_pdf_is_written_on_request() -> None:
    assert png_of(Picture(10, 10, [], ""), "pdf").startswith(b"%PDF")
