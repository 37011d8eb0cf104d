"""The layout of a search for nearest members: tiles of centres, and the partitionings of each place in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from ikmap.arrays import Bools, Floats
from ikmap.partitioners.voronoi import _layout_loops as layout
from ikmap.partitioners.voronoi._scores_loops import TILE
from ikmap.partitioners.voronoi._settle_loops import NONE, Membership
from ikmap.partitioners.voronoi.boxes import bounds
from ikmap.partitioners.voronoi.scores import DenseScores, SparseScores, Tiles


@dataclass(eq=False)
class Level:
    """Members ``start .. stop - 1`` of every partitioning, and the tiles of the centres that occur first there."""

    start: int
    stop: int
    first_tile: int
    tiles: np.ndarray
    boxes: tuple[np.ndarray, np.ndarray] | None = None


@dataclass(eq=False)
class SearchPlan:
    """The plan of a search for the cells of some values of psi.

    Parameters
    ----------
    ends : ndarray of int64
        Numbers of members after which blocks give an answer; the last is where the levels begin.
    block_tiles : int
        Number of tiles that hold the blocks.
    tiles : Tiles
        The blocks, then those of all levels.
    levels : list of Level
    membership : Membership or None
        Partitionings and members of each place in `tiles`.
    guess : (Tiles, ndarray of int) or None
        A sample of the centres; its scores of these ranks are the first limits.
    room : int
        Places in the list of a row.
    why : list of str
        Choices of the plan, for people.
    """

    ends: np.ndarray
    block_tiles: int
    tiles: Tiles
    levels: list[Level] = field(default_factory=list)
    membership: Membership | None = None
    guess: tuple[Tiles, np.ndarray] | None = None
    room: int = 0
    why: list[str] = field(default_factory=list)


def edges_of(base: int, psis: tuple[int, ...]) -> list[int]:
    """Return the ends of the levels: every wanted psi, and doublings between them."""
    edges, at = [], base
    for psi in psis:
        while 2 * at < psi:
            at *= 2
            edges.append(at)
        if psi > at:
            at = psi
            edges.append(at)
    return edges


def _block_order(members: np.ndarray, first: Bools, base: int) -> np.ndarray:
    """Return the centres (k, i) of the first members without repetitions, filled up to whole tiles."""
    order = np.where(first[:, :base], members[:, :base], -1).T.ravel()
    # Whole vectors are read, from the last members too.
    return _filled_up(order, order.size + 16) if base else order


def lay_out(
    members: np.ndarray,
    n_centers: int,
    scores: DenseScores | SparseScores,
    points: Floats | None,
    ends: np.ndarray,
    edges: list[int],
) -> SearchPlan:
    """Return tiles for the first ``edges[0]`` members in blocks, then for those of each level between the edges."""
    first = layout.firsts(members, n_centers)
    blocks = _block_order(members, first, edges[0])
    level_edges = np.array(edges, dtype=np.int64)
    first_level = layout.first_levels(members, first, level_edges, n_centers)
    first_level[blocks[blocks >= 0]] = -1  # scored already
    orders, first_tile = [blocks], blocks.size // TILE
    levels = []
    for number, (begin, end) in enumerate(pairwise(edges)):
        new = np.flatnonzero(first_level == number)
        boxes = None
        if points is not None and new.size:
            new = new[layout.near_order(points[new])]
            boxes = bounds(points[new])
        orders.append(_filled_up(new, new.size))
        n_tiles = orders[-1].size // TILE
        levels.append(Level(begin, end, first_tile, np.empty((n_tiles, 0, 0), dtype=np.float32), boxes))
        first_tile += n_tiles
    plan = SearchPlan(ends, orders[0].size // TILE, scores.tiles(np.concatenate(orders)), levels)
    for at in plan.levels:
        at.tiles = plan.tiles.lines[at.first_tile : at.first_tile + at.tiles.shape[0]]
    if not plan.levels:
        return plan

    # Memberships in the order of the tiles: what is near in space is near in memory.
    shift = (edges[-1] - 1).bit_length()
    if members.shape[0] << shift > NONE:
        raise MemoryError(f"{members.size:,} members are more than one search can hold; give a smaller t or psi")
    center_of = plan.tiles.center_of
    place_of = np.zeros(n_centers, dtype=np.int64)
    places = np.flatnonzero(center_of >= 0)[::-1]
    place_of[center_of[places]] = places  # of some places in blocks, the first
    words, runs, most = layout.memberships(members, first, level_edges, place_of, center_of.size, np.uint32(shift))
    plan.membership = Membership(words, runs, np.uint32(shift), most)
    return plan


def _filled_up(numbers: np.ndarray, size: int) -> np.ndarray:
    """Return centre numbers filled up with -1 to whole tiles that hold `size`."""
    full = np.full(-(-size // TILE) * TILE, -1, dtype=np.int64)
    full[: numbers.size] = numbers
    return full
