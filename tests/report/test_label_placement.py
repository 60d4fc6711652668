"""Labels near points: on their side, without overlap, with a line where they are distant."""

from __future__ import annotations

from mirage.report.axes import Axis, Frame
from mirage.report.label_placement import LabelPlacement
from mirage.report.picture import Label, Stroke, text_px

FRAME = Frame(Axis(0, 1, 40, 400), Axis(0, 1, 250, 30))
WIDE = text_px("label")
HIGH = 15.0


def placed(labels: LabelPlacement, x: float, y: float) -> tuple[float, float, float, float] | None:
    """The box of a label near a point; None where it is left out."""
    drawn = labels.near("label", x, y, "t1")
    if not drawn:
        return None
    label = drawn[-1]
    assert isinstance(label, Label)
    assert (label.text, label.style) == ("label", "t1")
    return label.x, label.y + 3 - HIGH, label.x + WIDE, label.y + 3


def test_sides_are_tried_in_turn() -> None:
    labels = LabelPlacement(FRAME)
    found = [placed(labels, 200, 140) for _ in range(4)]
    middle = 200 - WIDE / 2
    assert found == [
        (206, 134 - HIGH, 206 + WIDE, 134),  # above, to the right
        (190 - WIDE, 140 - HIGH / 2, 190, 140 + HIGH / 2),  # left, as right and above lie on the first
        (middle, 150, middle + WIDE, 150 + HIGH),  # below
        (middle, 118 - HIGH, middle + WIDE, 118),  # above, farther away
    ]


def test_labels_overlap_neither_points_nor_labels_and_stay_within_the_frame() -> None:
    labels = LabelPlacement(FRAME)
    for x, y in ((200, 140), (215, 140), (200, 155)):
        labels.reserve(x, y)
    boxes = [(x - 6, y - 6, x + 6, y + 6) for x, y in ((200, 140), (215, 140), (200, 155))]
    found = [placed(labels, x, y) for x, y in ((200, 140), (215, 140), (200, 155), (205, 145)) for _ in range(4)]
    boxes += [box for box in found if box is not None]
    assert len(boxes) > 12
    for k, (left, top, right, bottom) in enumerate(boxes):
        assert left >= 40
        assert right <= 400
        assert top >= 30
        assert bottom <= 250
        assert all(right <= a or left >= c or bottom <= b or top >= d for a, b, c, d in boxes[k + 1 :])


def test_at_the_edges_labels_are_on_the_inner_side() -> None:
    assert placed(LabelPlacement(FRAME), 395, 140) == (385 - WIDE, 140 - HIGH / 2, 385, 140 + HIGH / 2)
    top_left = placed(LabelPlacement(FRAME), 41, 31)
    assert top_left is not None
    assert top_left[0] > 41
    assert top_left[1] > 31 - HIGH / 2
    bottom = placed(LabelPlacement(FRAME), 200, 249)
    assert bottom == (206, 243 - HIGH, 206 + WIDE, 243)


def test_a_distant_label_has_a_line_to_its_point() -> None:
    labels = LabelPlacement(FRAME)
    labels.reserve(200, 140, 20)
    leader, label = labels.near("label", 200, 140, "t1")
    assert isinstance(leader, Stroke)
    assert isinstance(label, Label)
    assert leader.style == "leader"
    assert label.x >= 220 or label.y + 3 <= 120
    assert leader.places[0] == (200, 140)
    near_x, near_y = leader.places[1]
    assert label.x <= near_x <= label.x + WIDE
    assert label.y + 3 - HIGH <= near_y <= label.y + 3
    assert min(abs(near_x - label.x), abs(near_x - label.x - WIDE), abs(near_y - label.y - 3)) == 0


def test_without_room_there_is_no_label() -> None:
    labels = LabelPlacement(FRAME)
    labels.reserve(200, 140, 60)
    assert labels.near("label", 200, 140, "t1") == []
    assert LabelPlacement(FRAME).near("far too long " * 10, 200, 140, "t1") == []
