"""Places for the labels of marked points: beside their points, apart from each other, off the lines if possible."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

Point = tuple[float, float]


@dataclass(frozen=True)
class Box:
    """A rectangle in the units of the picture, y downwards."""

    left: float
    top: float
    right: float
    bottom: float

    @classmethod
    def around(cls, x: float, y: float, width: float, height: float) -> Box:
        """Return the box with its centre at (x, y)."""
        return cls(x - width / 2, y - height / 2, x + width / 2, y + height / 2)

    @property
    def centre(self) -> Point:
        """Middle of the box."""
        return (self.left + self.right) / 2, (self.top + self.bottom) / 2

    def within(self, area: Box) -> Box:
        """Return the box moved into ``area`` by the least distance (to its left and top if it is too large)."""
        dx = max(area.left, min(self.left, area.right - (self.right - self.left))) - self.left
        dy = max(area.top, min(self.top, area.bottom - (self.bottom - self.top))) - self.top
        return Box(self.left + dx, self.top + dy, self.right + dx, self.bottom + dy)

    def overlap(self, other: Box) -> float:
        """Return the area that two boxes have in common."""
        width = min(self.right, other.right) - max(self.left, other.left)
        height = min(self.bottom, other.bottom) - max(self.top, other.top)
        return max(0.0, width) * max(0.0, height)

    def contains(self, point: Point) -> bool:
        """Return whether a point lies in the box or on its edge."""
        return self.left <= point[0] <= self.right and self.top <= point[1] <= self.bottom


def _dotted(line: Sequence[Point], gap: float = 3.0) -> Iterator[Point]:
    """Yield points at most ``gap`` apart along a line."""
    yield from line[:1]
    for a, b in pairwise(line):
        steps = max(1, math.ceil(math.dist(a, b) / gap))
        yield from ((a[0] + (b[0] - a[0]) * k / steps, a[1] + (b[1] - a[1]) * k / steps) for k in range(1, steps + 1))


def place_labels(
    marks: Sequence[Point],
    widths: Sequence[float],
    height: float,
    clear: float,
    lines: Sequence[Sequence[Point]],
    area: Box,
) -> list[Box]:
    """Return boxes for the labels of ``marks``, all within ``area``.

    Each label in turn takes the place with the least cost: an overlap with another label, then with a mark, then with a
    line, then the distance from its point.

    Parameters
    ----------
    marks : sequence of (x, y)
        The points to label.
    widths : sequence of float
        Width of each label.
    height : float
        Height of every label.
    clear : float
        Half the side of the square around a mark that labels keep clear of.
    lines : sequence of sequences of (x, y)
        Lines that labels should not cover.
    area : Box
        Area in which labels may be.
    """
    dots = [dot for line in lines for dot in _dotted(line)]
    rings = [Box.around(x, y, 2 * clear, 2 * clear) for x, y in marks]
    placed: list[Box] = []
    rows = range(1, math.ceil((area.bottom - area.top) / height) + 1)
    for (x, y), width in zip(marks, widths, strict=True):
        beside = clear + width / 2
        heights = [0.0, *(sign * (clear + (k - 0.5) * height) for k in rows for sign in (-1, 1))]
        boxes = [
            Box.around(x + dx, y + dy, width, height).within(area)
            for dx, dy in itertools.product((0.0, beside, -beside), heights)
        ]

        def cost(box: Box, at: Point = (x, y)) -> float:
            taken = sum(box.overlap(other) for other in placed)
            hidden = sum(box.overlap(ring) for ring in rings)
            crossed = sum(map(box.contains, dots))
            return 1e6 * taken + 1e2 * hidden + 10 * crossed + math.dist(box.centre, at)

        placed.append(min(boxes, key=cost))
    return placed
