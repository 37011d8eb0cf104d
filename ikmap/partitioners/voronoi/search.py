"""The search for the nearest member of all t partitionings at once, over the distinct centres.

First members of the partitionings are scored block by block, (k, i) side by side. Beyond, the search is for near
centres, whatever partitionings they belong to: those within a limit are listed for each row, and settle the
partitionings they are members of. The limit is the score of the farthest cell found so far, which each doubling of psi
lowers; or, where only the largest psi is asked for, a guess from a sample of the centres, corrected for the rows where
it was too low.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from ikmap.arrays import Array, Floats
from ikmap.partitioners.voronoi import _nearest_loops as nearest
from ikmap.partitioners.voronoi import _scores_loops as scoring
from ikmap.partitioners.voronoi import _settle_loops as settling
from ikmap.partitioners.voronoi.boxes import MOST_FEATURES, Frame, principal_frame, reach_of
from ikmap.partitioners.voronoi.scores import DenseScores, Queries, SparseScores
from ikmap.partitioners.voronoi.search_plan import Level, SearchPlan, edges_of, lay_out
from ikmap.rows import Rows, as_csr, as_dense

BLOCK_PSI = 32
"""Members of each partitioning that are scored in blocks, at most."""
BLOCK_ROWS = 60
"""Rows whose blocks are scored before they are read again."""
ROWS = 512
"""Rows searched together, at most: tiles are read from memory once for all of them."""
SCRATCH_BYTES = 32 << 20
TRIAL_ROWS, TRIAL_MEMBERS = 96, 1 << 24
"""Rows that a plan is tried on, and how many memberships are looked at for all of them, at most."""
TRIAL_MISSES = 0.2
"""Share of the rows of a trial that may need a second, full search."""
SAMPLE, SAMPLE_SHARE = (256, 2048), 16
"""Size of the sample that limits are guessed from: psi, but no more than a share of the centres, within a range."""
SPARSE_COST = 2.5
"""Cost of an entry of a sparse row, in multiples of a coordinate of a dense row."""
LAST_ATTEMPT = 2
"""Number of the attempt that nothing can fail in: it takes every centre for near."""
GUESS_SETTLES = (0.2, 0.4, 0.6, 0.8, 0.98)
"""Shares of the rows for which guessed limits should be enough; more rows cost more candidates."""
BOLDER = 4
"""Multiple of the centres that a second guess is to be enough for."""
LIST_ROOM = 2
"""Places in a list of near centres, in multiples of the number expected."""


class CentreSearch:
    """A search for the nearest of `members` among `centers`, for any rows."""

    def __init__(self, centers: np.ndarray | sp.csr_array, members: np.ndarray) -> None:
        self.members = members
        self.n_centers, self.n_features = centers.shape
        n_side_by_side = members.shape[0] * min(members.shape[1], BLOCK_PSI)
        self.scores = choose_scores(centers, min(members.size, self.n_centers + n_side_by_side))
        self.frame: Frame | None = None
        self.points: np.ndarray | None = None
        self._plans: dict[tuple[int, ...], SearchPlan] = {}

    def plan(self, psis: Sequence[int]) -> SearchPlan:
        """Return the plan for ascending values of psi, which is made once."""
        key = tuple(psis)
        if key not in self._plans:
            self._plans[key] = self._make_plan(key)
        return self._plans[key]

    def rows_at_once(self, plan: SearchPlan) -> int:
        """Return the number of rows for one call of :meth:`find`."""
        row_bytes = 8 * plan.room + self.scores.row_bytes + 8 * self.members.shape[0]
        if plan.guess:
            row_bytes += 4 * plan.guess[0].center_of.size
        # Scores that are begun elsewhere; who visits a tile.
        row_bytes += 4 * plan.tiles.center_of.size // (scoring.TILE if plan.tiles.lists is None else 1)
        return int(np.clip(SCRATCH_BYTES // row_bytes, 16, ROWS))

    def find(self, plan: SearchPlan, X: Rows, psis: Sequence[int], codes: np.ndarray) -> None:
        """Write the nearest members: ``codes[e, r, i]`` among the first ``psis[e]`` of partitioning i."""
        missing, _ = self._attempt(plan, X, codes, psis, 0)
        for attempt in range(1, LAST_ATTEMPT + 1):
            if not missing.size:
                return
            still = [np.empty(0, dtype=np.int64)]
            step = max(1, SCRATCH_BYTES // (8 * self._most(plan)))
            for start in range(0, missing.size, step):
                some = missing[start : start + step]
                again = np.empty((codes.shape[0], some.size, codes.shape[2]), dtype=np.int32)
                left, _ = self._attempt(plan, X[some], again, psis, attempt)
                codes[:, some] = again
                still.append(some[left])
            missing = np.concatenate(still)
        if missing.size:
            raise AssertionError(f"{missing.size} rows were not settled by all centres")

    def _attempt(
        self,
        plan: SearchPlan,
        X: Rows,
        codes: np.ndarray,
        psis: Sequence[int],
        attempt: int,
        tally: list[tuple[int, np.ndarray]] | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Search once. Attempt 0 has short lists and the plan's guess of how far cells are; attempt 1 long lists and a
        larger guess; the last one takes every centre and so misses no row.

        Returns the rows it missed, and the keys of the nearest members at the largest psi.
        """
        block = self.scores.block(X)
        n, t = X.shape[0], self.members.shape[0]
        keys = np.full((n, t), nearest.NOBODY)
        accuracy = nearest.Accuracy(block.lengths, self.scores.reach, block.units)
        exact = (block.operand, self.scores.operand)
        limits = np.full((n, 1), nearest.EVERYTHING, dtype=np.float32)
        if plan.guess is not None:
            limits = self._guess(plan, block, attempt)
        left = self.scores.begun(block, plan.tiles)
        room = plan.room if attempt == 0 else self._most(plan)
        room += -room % 16  # whole vectors are read
        listed, found = np.empty((n, room), dtype=np.int32), np.empty((n, room), dtype=np.float32)
        count = np.zeros(n, dtype=np.int64)
        lists = settling.Lists(listed, found, count)
        blocks = plan.tiles.lines[: plan.block_tiles]
        out = np.empty((min(n, BLOCK_ROWS), blocks.shape[0] * scoring.TILE), dtype=np.float32)
        # The loops are compiled for arrays without gaps.
        whole = codes if codes.flags.c_contiguous else np.empty(codes[: len(plan.ends)].shape, dtype=np.int32)
        for start in range(0, n if plan.block_tiles else 0, BLOCK_ROWS):
            stop = min(start + BLOCK_ROWS, n)
            scoring.score_all(left, start, stop, blocks, out)
            some = out[: stop - start]
            settling.settle_blocks(some, start, plan.ends, self.members, accuracy, *exact, whole, keys)
            if plan.levels:
                if attempt < LAST_ATTEMPT:
                    settling.limits_of(keys, start, stop, accuracy, limits)
                scoring.list_scored(some, start, np.ascontiguousarray(limits[:, 0]), *lists)
        if whole is not codes and plan.block_tiles:
            codes[: len(whole)] = whole
        if not plan.levels:
            return np.empty(0, dtype=np.int64), keys
        settled, missed = np.empty(n, dtype=np.bool_), np.zeros(n, dtype=np.bool_)
        points = self._points_of(block) if any(level.boxes for level in plan.levels) else None
        for number, level in enumerate(plan.levels):
            visits = self._collect(level, left, points, limits[:, -1].copy(), block.lengths, lists)
            if tally is not None:
                tally.append((visits, count.copy()))
            more = attempt < LAST_ATTEMPT and number + 1 < len(plan.levels)
            settling.settle_lists(
                lists, limits, number, more, plan.membership, self.members, accuracy, *exact, keys, settled
            )
            missed |= ~settled
            if level.stop in psis:
                codes[psis.index(level.stop)] = nearest.members_of(keys)
        return np.flatnonzero(missed), keys

    def _guess(self, plan: SearchPlan, block: Queries, attempt: int) -> np.ndarray:
        """Return ascending limits for each row, shape (n, steps): scores of given ranks in the sample."""
        assert plan.guess is not None
        sample, ranks = plan.guess
        n, size = block.lengths.size, int((sample.center_of >= 0).sum())
        if attempt == 1:
            ranks = np.array([BOLDER * ranks[-1] + 8])
        if attempt == LAST_ATTEMPT or ranks[-1] > size:
            return np.full((n, 1), nearest.EVERYTHING, dtype=np.float32)
        out = np.empty((n, sample.center_of.size), dtype=np.float32)
        scoring.score_all(self.scores.begun(block, sample), 0, n, sample.lines, out)
        limits = np.empty((n, ranks.size), dtype=np.float32)
        scoring.order_statistics(out, ranks, limits)
        limits[block.lengths < 0] = nearest.EVERYTHING
        return limits

    @staticmethod
    def _collect(
        level: Level,
        left: tuple[Array, ...],
        points: np.ndarray | None,
        limit: np.ndarray,
        lengths: Floats,
        lists: settling.Lists,
    ) -> int:
        """List the centres of a level within the limits of the rows; return the number of scored tiles of all rows."""
        if level.boxes is None or points is None:
            scoring.collect(left, level.tiles, level.first_tile, limit, *lists)
            everywhere: int = limit.size * level.tiles.shape[0]
            return everywhere
        reach = reach_of(limit, np.maximum(lengths, 0.0))
        scored: int = scoring.collect_in_boxes(
            left, points, level.tiles, level.first_tile, *level.boxes, limit, reach, *lists
        )
        return scored

    def _points_of(self, block: Queries) -> np.ndarray:
        assert self.frame is not None
        return self.frame.points(self.scores.points(block)).astype(np.float32)

    # -- planning ----------------------------------------------------------------------------------------------------

    def _make_plan(self, psis: tuple[int, ...]) -> SearchPlan:
        largest = psis[-1]
        single = len(psis) == 1
        base = largest if largest <= BLOCK_PSI else 0 if single else max(1, BLOCK_PSI)
        ends = sorted({psi for psi in psis if psi < base} | {base}) if base else []
        edges = [base]
        if largest > base:
            edges += [largest] if single else edges_of(base, psis)
        plan = self._lay_out(np.array(ends, dtype=np.int64), edges)
        if base:
            plan.why.append(f"the first {base} members of each partitioning side by side")
        if largest > base:
            self._try(plan, psis)
        return plan

    def _lay_out(self, ends: np.ndarray, edges: list[int]) -> SearchPlan:
        if len(edges) > 1 and self.n_features <= MOST_FEATURES and self.frame is None:
            scaled = self.scores.scaled()
            frame = principal_frame(scaled)
            self.points = frame.points(scaled)
            self.frame = frame  # last: another thread may be planning
        return lay_out(self.members, self.n_centers, self.scores, self.points, ends, edges)

    def _try(self, plan: SearchPlan, psis: tuple[int, ...]) -> None:
        """Search for the cells of some centres, to measure which settings are worth while for the data."""
        order = plan.tiles.center_of[plan.tiles.center_of >= 0]
        if not order.size:  # every further member repeats a first one
            order = np.zeros(1, dtype=np.int32)
        n = int(np.clip(TRIAL_MEMBERS // (self.members.shape[0] * psis[-1]), 16, TRIAL_ROWS))
        X = self._rows_of(np.sort(order[:: max(1, order.size // n)][:n]))
        plan.room = self._most(plan)
        if not plan.ends.size:
            self._add_guess(plan, X, order, psis)
        tally: list[tuple[int, np.ndarray]] = []
        codes = np.empty((len(psis), X.shape[0], self.members.shape[0]), dtype=np.int32)
        self._attempt(plan, X, codes, psis, 0, tally)
        listed = np.max([count for _, count in tally], axis=0)
        plan.room = int(np.clip(LIST_ROOM * np.quantile(listed, 0.9), 64, self._most(plan)))
        for level, (visits, _) in zip(plan.levels, tally, strict=True):
            self._keep_boxes_if_worth_while(plan, level, visits / X.shape[0])

    def _add_guess(self, plan: SearchPlan, X: Rows, order: np.ndarray, psis: tuple[int, ...]) -> None:
        """Choose a sample of the centres, and the ranks in it that bound the farthest cell of shares of the rows."""
        size = int(np.clip(min(psis[-1], order.size // SAMPLE_SHARE), *SAMPLE))
        sample = self.scores.tiles(order[:: max(1, order.size // size)])
        size = int((sample.center_of >= 0).sum())
        # Members are drawn evenly: among the nearest share p of the centres, a partitioning has none with chance
        # (1 - p)^psi.
        t = self.members.shape[0]
        share = 1.0 - (TRIAL_MISSES / t) ** (1.0 / psis[-1])
        plan.guess = (sample, np.array([math.ceil(share * size) + 1]))
        codes = np.empty((1, X.shape[0], t), dtype=np.int32)
        missed, keys = self._attempt(plan, X, codes, psis, 0)
        if missed.size:
            _, keys[missed] = self._attempt(plan, X[missed], codes[:, missed], psis, LAST_ATTEMPT)
        out = np.empty((X.shape[0], sample.center_of.size), dtype=np.float32)
        scoring.score_all(self.scores.begun(self.scores.block(X), sample), 0, X.shape[0], sample.lines, out)
        within = (out <= nearest.scores_of(keys).max(axis=1, keepdims=True)).sum(axis=1)
        ranks = np.unique(np.quantile(within, GUESS_SETTLES, method="higher").astype(np.int64) + 1)
        plan.guess = (sample, np.minimum(ranks, size))
        plan.why.append(f"near centres within the score of number {ranks[-1]} of a sample of {size:,}")

    def _keep_boxes_if_worth_while(self, plan: SearchPlan, level: Level, visits: float) -> None:
        """Keep boxes if they save more than they cost, in processor cycles for each row, as measured once."""
        n_tiles = level.tiles.shape[0]
        what = f"members {level.start}..{level.stop - 1}: {n_tiles:,} tiles of {scoring.TILE} centres"
        if level.boxes is not None:
            score = self.scores.cost
            whole, boxed = n_tiles * score, visits * (score + 20.0) + 3.0 * level.boxes[0].size / 16
            if boxed < whole:
                plan.why.append(f"{what}, {visits:.0f} in reach of a row ({whole / boxed:.1f} times cheaper than all)")
                return
            level.boxes = None
        plan.why.append(f"{what}, all scored")

    @staticmethod
    def _most(plan: SearchPlan) -> int:
        """Return the number of places in a list that can hold all centres, some twice."""
        return plan.tiles.center_of.size + scoring.TILE

    def _rows_of(self, numbers: np.ndarray) -> Rows:
        operand = self.scores.operand
        if isinstance(operand, np.ndarray):
            return operand[numbers]
        return sp.csr_array(operand, shape=(self.n_centers, self.n_features))[numbers]


def choose_scores(centers: np.ndarray | sp.csr_array, places: int = 0) -> DenseScores | SparseScores:
    """Choose the scores: by all coordinates of a row, or by its non-zeros, for tiles of so many places.

    An entry of a sparse row costs more than a coordinate of a dense one, where rows share each line and there is no
    list to read; the cells are the same either way.
    """
    n, d = centers.shape
    filled = np.count_nonzero(centers) if isinstance(centers, np.ndarray) else centers.nnz
    dense = filled * SPARSE_COST >= n * d
    if isinstance(centers, np.ndarray):
        return DenseScores(centers) if dense else SparseScores(as_csr(centers), places)
    return DenseScores(as_dense(centers)) if dense else SparseScores(centers, places)
