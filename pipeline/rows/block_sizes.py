"""Decide how rows of cells are cut: into chunks to read, shards to write, and blocks to learn from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ikmap import seed_paths
from ikmap.cells import packed_dtype
from ikmap.seeds import generator

CHUNK_BYTES = 2 << 20
SHARD_BYTES = 16 << 20
TASKS = 32
PIECE_ROWS = 4096
"""Number of rows of the runs of which blocks to learn from are made, whatever the shards are."""
BLOCK_BYTES = 64 << 20
"""Most bytes of packed cells that a learner holds in memory."""
VISIT_BYTES = 512 << 10
"""Most bytes of a block that is visited many times: small, so that the solver can combine blocks anew."""
STREAM_BYTES = 32 << 20
"""Most bytes of a block of a learner that goes through all blocks: it works on one while the next is read."""
DISTRIBUTED_BYTES = 512 << 20
"""Bytes of packed cells from which on batch learners work on parts of the rows side by side."""
LEAST_PARTS, MOST_PARTS = 8, 64
"""Least and most parts: they are worked on side by side, but four times as many take about 1.6 times as many rounds."""
PIECES_PER_PART = 16


@dataclass(frozen=True)
class BlockLayout:
    """Rows of a shard, the unit of writing and of tasks, and of a chunk, the unit of reading."""

    shard_rows: int
    chunk_rows: int


def cell_layout(n_rows: int, t: int, shard_rows: int | None = None) -> BlockLayout:
    """Choose the cut of an (n, t) array of cells; sizes are those of int32, as which they are mapped.

    Chunks hold about 2 MiB. Shards are whole chunks, few enough to make objects worth writing (at most 16 MiB) and
    many enough (about 32, where the rows suffice) to keep every worker busy.

    Parameters
    ----------
    shard_rows : int, optional
        Number of rows of a shard that the user wants, raised by less than 2 % where it must be cut into equal chunks;
        the cells are the same for any number.
    """
    chunk = int(np.clip(_power_of_two(CHUNK_BYTES // (4 * t)), 64, PIECE_ROWS))
    if shard_rows is not None:
        n_chunks = -(-shard_rows // chunk)
        chunk = -(-shard_rows // n_chunks)
        return BlockLayout(chunk * n_chunks, chunk)
    most = max(1, SHARD_BYTES // (4 * t * chunk))
    return BlockLayout(chunk * int(np.clip(n_rows // (TASKS * chunk), 1, most)), chunk)


def learning_blocks(
    n_rows: int, row_bytes: int, seed: int, *, shuffled: bool = True, block_bytes: int | None = None
) -> list[list[tuple[int, int]]]:
    """Cut training rows into blocks that fit in memory, each a list of row ranges.

    The cut depends on the rows and the bytes of each only, never on shards or workers, so a learner that goes
    block by block gives the same bits on any cluster. With `shuffled`, blocks are made of random runs of rows: a file
    sorted by class is then no worse than any other. A block has at most `block_bytes`, or one run of rows; the default
    suits a learner that goes through all blocks.
    """
    pieces_per_block = max(1, (STREAM_BYTES if block_bytes is None else block_bytes) // (PIECE_ROWS * row_bytes))
    pieces = [(start, min(start + PIECE_ROWS, n_rows)) for start in range(0, n_rows, PIECE_ROWS)]
    n_blocks = -(-len(pieces) // pieces_per_block)
    order = np.arange(len(pieces))
    if shuffled and n_blocks > 1:
        order = generator(seed, seed_paths.BLOCKS).permutation(order)
    return [[pieces[p] for p in np.sort(block)] for block in np.array_split(order, n_blocks)]


def packed_row_bytes(offsets: np.ndarray) -> int:
    """Return the bytes of a row of packed cells."""
    return int((offsets.size - 1) * packed_dtype(offsets).itemsize)


def packed_bytes(n_rows: int, t: int, psi: int) -> int:
    """Return the bytes of `n_rows` rows of packed cells."""
    return n_rows * t * packed_dtype(np.array([0, psi], dtype=np.int64)).itemsize


def choose_solver(cells_bytes: int, requested: str = "auto") -> str:
    """Choose the solver of a batch learner by the bytes of its packed cells; the cluster does not matter.

    "memory": all rows in one task. "block": one task that visits blocks of a temporary file. "distributed": parts of
    the rows, side by side.
    """
    if requested != "auto":
        return requested
    if cells_bytes <= BLOCK_BYTES:
        return "memory"
    return "block" if cells_bytes <= DISTRIBUTED_BYTES else "distributed"


def choose_parts(n_rows: int, cells_bytes: int, requested: int | None = None) -> int:
    """Choose the number of parts of the distributed solver: the given one, else by the data; workers do not matter."""
    parts = int(np.clip(-(-cells_bytes // BLOCK_BYTES), LEAST_PARTS, MOST_PARTS)) if requested is None else requested
    return max(1, min(parts, n_rows))


def learning_parts(n_rows: int, n_parts: int, seed: int) -> list[list[tuple[int, int]]]:
    """Share out training rows among parts, each a list of ascending row ranges from all over the file.

    The sizes differ by at most a piece. Pieces are drawn at random, so that every part has rows of all kinds.
    """
    piece = int(np.clip(n_rows // (PIECES_PER_PART * n_parts), 1, PIECE_ROWS))
    pieces = [(start, min(start + piece, n_rows)) for start in range(0, n_rows, piece)]
    order = generator(seed, seed_paths.BLOCKS).permutation(len(pieces))
    return [[pieces[p] for p in np.sort(part)] for part in np.array_split(order, n_parts)]


def _power_of_two(x: int) -> int:
    return 1 << max(0, x.bit_length() - 1)
