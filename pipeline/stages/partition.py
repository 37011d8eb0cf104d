"""Partition: draw the subsamples, fetch just those rows, fit the partitionings and store them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from ikmap.partitioners import Partitions
from ikmap.rows import Rows
from pipeline.engine import Context, Record, Stage, Task
from pipeline.errors import InputError
from pipeline.models import load_model, save_model
from pipeline.params import Params
from pipeline.prepared import PreparedRows
from pipeline.store import Store


@dataclass(frozen=True)
class Fitted:
    """Which partitionings: small enough to travel with every task.

    Attributes
    ----------
    psi : int
    content_hash : str
        Of the stored model; tasks refuse any other.
    """

    psi: int
    content_hash: str

    @property
    def name(self) -> str:
        return partitions_name(self.psi)

    def load(self, store: Store) -> Partitions:
        """The model, from this process's cache or the store."""
        return load_model(store, self.name, Partitions, self.content_hash)

    def offsets(self, store: Store) -> np.ndarray:
        """Offsets of the cells, int64 (t + 1,): all that a learner needs of the model, which may be large.

        Raises
        ------
        ValueError
            If the stored model is another one.
        """
        attributes = store.need(self.name)
        if attributes.get("content_hash") != self.content_hash:
            raise ValueError(f"{store.path}/{self.name}: not the model {self.content_hash}")
        return np.array(attributes["offsets"], dtype=np.int64)


def partitions_name(psi: int) -> str:
    """Where the partitionings of psi cells are stored."""
    return f"partitions/psi-{psi}"


def partition(context: Context, psis: Sequence[int]) -> dict[str, Any]:
    """Fit the t partitionings for each psi.

    Returns
    -------
    dict
        fitted: for each psi, in ascending order, psi and content_hash of the model.

    Raises
    ------
    InputError
        If a psi is larger than the training set.
    """
    psis = sorted(set(psis))
    n = PreparedRows(context.store, "train").n_rows
    if psis[-1] > n:
        raise InputError(f"--psi {psis[-1]}: found {n} training rows, expected at least psi")
    stage = Stage(context, "partition", len(psis))
    n_threads = max(1, cores_of_a_host(context) // len(psis))
    records = stage.run(fit, [Task(f"psi-{psi}", (context.store, context.params, psi, n_threads)) for psi in psis])
    return stage.finish(
        fitted=[asdict(Fitted(psi, record["content_hash"])) for psi, record in zip(psis, records, strict=True)]
    )


def cores_of_a_host(context: Context) -> int:
    """Threads of one machine's workers (the fewest) that are this run's: few tasks may use what else would be idle."""
    hosts: Counter[str] = Counter()
    for worker in context.client.scheduler_info(n_workers=-1)["workers"].values():
        hosts[worker["host"]] += worker["nthreads"]
    return max(1, min(hosts.values(), default=1) // context.share)


def fit(store: Store, params: Params, psi: int, n_threads: int = 1) -> Record:
    """Task: fit and store the model, the same for any number of threads."""
    train = PreparedRows(store, "train")
    seen = _Seen(train)
    sample = replace(train.sample(params.seed), take=seen.take)
    model = params.map.fit(params.map_options, psi, sample, n_threads)
    content_hash = save_model(store, partitions_name(psi), model, offsets=model.offsets.tolist())
    return {
        "rows": seen.rows,
        "bytes_read": seen.bytes,
        "bytes_written": model.nbytes,
        "outputs": [partitions_name(psi)],
        "content_hash": content_hash,
    }


class _Seen:
    """Rows that a map has looked at, counted."""

    def __init__(self, rows: PreparedRows) -> None:
        self._of = rows
        self.rows = self.bytes = 0

    def take(self, numbers: np.ndarray) -> Rows:
        """Rows by ascending number."""
        rows, _ = self._of.take(numbers)
        self.rows += rows.shape[0]
        self.bytes += rows.nbytes if isinstance(rows, np.ndarray) else 2 * rows.data.nbytes
        return rows
