"""The table of data sets: their sizes as printed and as read."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.record_types import RecordView
from pipeline.report.text import count
from pipeline.reproduce.form import Form, Made, Row, table


class Sizes(Form):
    """Rows, columns and share of entries that are not zero, of every data set that is there."""

    sized = True

    def rows(self, made: Made) -> list[Row]:
        """One for each data set."""
        return [self._row(name, size) for name, size in made.sizes.items()]

    def _row(self, dataset: str, ingested: RecordView | str) -> Row:
        printed = self.paper.published.get(f"table{self.experiment.name}", {})
        row: Row = {"dataset": dataset, "published": printed.get(dataset), "ours": None, "message": ""}
        if isinstance(ingested, str):
            return {**row, "message": ingested}
        n = ingested["rows_train"] + ingested["rows_test"]
        percent = 100 * ingested["nnz"] / (n * ingested["columns"])
        row["ours"] = {
            "n_train": ingested["rows_train"],
            "n_test": ingested["rows_test"],
            "n_columns": ingested["columns"],
            "nnz_percent": round(percent, 4),
            "sparse": percent < 1,
        }
        return row

    def html(self, rows: Sequence[Row]) -> str:
        """Two lines for each data set, and why one could not be read."""
        head = ("data set", "", "training rows", "test rows", "columns", "not zero, %", "sparse")
        cells: list[list[str]] = []
        notes = []
        for row in rows:
            for who, shown in (("published", "printed"), ("ours", "ours")):
                size = row[who]
                if size is None:
                    text = "failed" if who == "ours" else "not in the paper"
                    if who == "ours":
                        notes.append(f"{row['dataset']}: {row['message']}.")
                    cells.append([row["dataset"], shown, text, "", "", "", ""])
                    continue
                cells.append([
                    row["dataset"], shown, count(size["n_train"]), count(size["n_test"]),
                    count(size["n_columns"]), f"{size['nnz_percent']:g}", "yes" if size["sparse"] else "no",
                ])  # fmt: skip
        return table(head, cells, "Data sets", texts=2, notes=notes)
