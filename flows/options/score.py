"""The options of ``python -m flows.score``."""

from __future__ import annotations

from typing import Annotated, ClassVar

from flows.options.batch import FORMAT
from flows.options.common import CLUSTER, DATA, OUTPUT, RUN, CommonOptions
from flows.options.kinds import Place
from flows.options.option import On
from ikmap.methods import LEARNERS, Doc
from ikmap.methods.kinds import Choice, Name
from pipeline.errors import InputError

_OTHER_FORMATS = (
    ".tsv",
    ".txt",
    ".json",
    ".jsonl",
    ".ndjson",
    ".arff",
    ".sqlite",
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

    model: Annotated[str, Place("RUN", here=True), Doc("directory of a finished run"), On(RUN, page=1)]
    learner: Annotated[
        str | None,
        Choice(tuple(LEARNERS)),
        Doc("which of the run's learners predicts (default: the first it trained)"),
        On(RUN, page=1),
    ] = None
    input: Annotated[
        str,
        Place("PATH|URL"),
        Doc("data to score: a file, or a URL that fsspec can open; of tables also a folder, a glob or a list"),
        On(DATA, page=1),
    ]
    format: Annotated[str, FORMAT, Doc("format of the file; auto goes by the name"), On(DATA)] = "auto"
    label: Annotated[
        str | None,
        Name("COLUMN"),
        Doc("column that holds the true label, in tables; how good the predictions are is then printed too"),
        On(DATA, page=1),
    ] = None
    output: Annotated[
        str,
        Place("PATH|URL"),
        Doc(
            "Parquet file to write, with prediction and score; CSV if it ends in .csv, a folder of parts if it ends "
            "in /"
        ),
        On(OUTPUT, page=1),
    ] = "predictions.parquet"

    def check_together(self) -> None:
        super().check_together()
        if self.output.lower().endswith(_OTHER_FORMATS):
            raise InputError(
                f"--output {self.output}: found the name of another format, expected one in .parquet; Parquet is what "
                "is written, or CSV (.csv), or a folder of Parquet files (a name that ends in /)"
            )
