"""The options of ``python -m flows.score``."""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from typing import ClassVar

from flows.options.batch import FORMATS, LEARNER
from flows.options.common import CLUSTER, DATA, OUTPUT, RUN, CommonOptions
from flows.options.declared import option
from flows.options.kinds import Place
from ikmap.methods.kinds import Text
from pipeline.errors import InputError

_OTHER_FORMATS = (
    ".tsv",
    ".txt",
    ".json",
    ".jsonl",
    ".npy",
    ".npz",
    ".libsvm",
    ".svm",
    ".gz",
    ".bz2",
    ".xz",
    ".zip",
    ".zst",
    ".arrow",
    ".feather",
    ".ipc",
    ".orc",
    ".avro",
    ".xlsx",
    ".xls",
)


@dataclass(frozen=True, kw_only=True)
class ScoreOptions(CommonOptions):
    """Options of ``python -m flows.score``: a trained model applied to new data.

    Raises
    ------
    InputError
        As :class:`~flows.options.batch.BatchOptions`.
    """

    PROGRAM: ClassVar[str] = "flows.score"
    DESCRIPTION: ClassVar[str] = "Apply the model of a finished run to new data of any size."
    GROUPS: ClassVar[tuple[str, ...]] = (DATA, RUN, CLUSTER, OUTPUT)

    model: str = option(MISSING, Place("RUN", here=True), group=RUN, common=True, help="directory of a finished run")
    learner: str | None = option(
        None,
        LEARNER,
        group=RUN,
        common=True,
        help="which of the run's learners predicts (default: the first it trained)",
    )
    input: str = option(
        MISSING,
        Place("PATH|URL"),
        group=DATA,
        common=True,
        help="data to score: a file, or a URL that fsspec can open; of tables also a folder, a glob or a list",
    )
    format: str = option("auto", FORMATS, group=DATA, help="format of the file; auto goes by the name")
    label: str | None = option(
        None,
        Text("COLUMN"),
        group=DATA,
        common=True,
        help="column that holds the true label, in tables; how good the predictions are is then printed too",
    )
    output: str = option(
        "predictions.parquet",
        Place("PATH|URL"),
        group=OUTPUT,
        common=True,
        help="Parquet file to write, with prediction and score; CSV if it ends in .csv, a folder of parts if it ends "
        "in /",
    )

    def check_together(self) -> None:
        super().check_together()
        if self.output.lower().endswith(_OTHER_FORMATS):
            raise InputError(
                f"--output {self.output}: found the name of another format, expected one in .parquet; Parquet is what "
                "is written, or CSV (.csv), or a folder of Parquet files (a name that ends in /)"
            )
