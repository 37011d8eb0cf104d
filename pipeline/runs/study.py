"""A study: a protocol of a paper, computed on whole data sets, with choices that a run never makes.

Papers that report the best of many results on test rows need one. The paper computes it
(:meth:`~pipeline.reproduce.paper.Paper.study`); here its parts become tasks, and the run can be stopped and go on.
"""

from __future__ import annotations

import numpy as np

from ikmap.learners.rows import concatenated
from pipeline.record_types import Record, RecordView, StudyRecord
from pipeline.reproduce.registry import PAPERS
from pipeline.rows.prepared import PreparedRows
from pipeline.running.dispatch import Task
from pipeline.running.stage import Context, Stage
from pipeline.runs.metrics import records_of_stages
from pipeline.storage.durable import write_json
from pipeline.storage.rundir import METRICS
from pipeline.storage.store import Store


def run_study(context: Context, paper: str, options: RecordView) -> Record:
    """Compute a study and return the contents of its ``metrics.json``.

    Parameters
    ----------
    paper : str
        Name of the paper.
    options : mapping
        Options of the study; ``parts`` is the number of its parts.
    """
    run, seed = context.run, context.params.seed
    done_before = set(run.manifest["stages"])
    run.begin_session(0.0)
    stage = Stage(context, "study", options["parts"], rows=0)
    store = None if run.stage("ingest") is None else context.store
    tasks = [Task(f"part-{i}", (store, paper, dict(options), seed, i)) for i in range(options["parts"])]
    records = stage.run(part, tasks)
    stage.finish({})
    results = [record["result"] for record in records]
    key = PAPERS[paper].measure.key
    mean = float(np.mean([result[key] for result in results]))
    metrics = {
        "schema_version": 1,
        "params": dict(options),
        "seed": seed,
        "stages": records_of_stages(run, done_before),
        "learners": {"study": {key: mean}},
        "parts": results,
    }
    run.end_session(context.elapsed)
    write_json(run.path / METRICS, metrics)
    run.manifest["status"] = "finished"
    run.save()
    return metrics


def part(store: Store | None, paper: str, options: RecordView, seed: int, number: int) -> StudyRecord:
    """Task: compute one part of a study, on all rows; without a store, on points that the study generates."""
    if store is None:
        no_rows = np.empty((0, 0)), np.empty(0)
        return {"rows": 0, "result": PAPERS[paper].study(*no_rows, None, options, seed, number)}
    sides = [PreparedRows(store, name) for name in ("train", "test")]
    every_row = concatenated([side.read(0, side.n_rows) for side in sides if side.n_rows])
    names = sides[0].preparation.column_names
    result = PAPERS[paper].study(every_row.rows, every_row.y, names, options, seed, number)
    return {"rows": int(every_row.y.size), "result": result}
