"""The data sets that ``flows.reproduce`` finds on this machine: it downloads nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from flows.options.reproduce import ReproduceOptions
from flows.runs.look_first import data_folder, known_data
from pipeline.sources.datasets.known import missing_files
from pipeline.sources.datasets.registry import ResolvedDataset, resolve


class LocalData:
    """Data sets by name, and the reasons why others are missing.

    Attributes
    ----------
    there : dict
        Data sets that are there, in the order in which they were looked for.
    skipped : dict of str
        A line for each missing data set.
    """

    def __init__(self, options: ReproduceOptions) -> None:
        self.folder = data_folder(options.data_dir)
        self.registry = known_data(options.dataset_file, self.folder)
        self._all_columns = frozenset[str](options.the_paper.about.get("all_columns", ()))
        self.there: dict[str, ResolvedDataset] = {}
        self.skipped: dict[str, str] = {}

    def look_for(self, name: str) -> None:
        """Find a data set, or note what is missing.

        Raises
        ------
        InputError
            No data set of that name is known.
        """
        spec = self.registry.find(name)
        if spec.name in self.there or spec.name in self.skipped:
            return
        if missing := missing_files(spec, self.folder):
            self.skipped[spec.name] = f"{spec.name}: {' and '.join(missing)} not found in {self.folder}"
        else:
            data = resolve(spec, self.folder)
            self.there[spec.name] = replace(data, drop=()) if spec.name in self._all_columns else data

    def those_of(self, names: Iterable[str]) -> list[str]:
        """Return the data sets that are there, once each, by their names in the registry."""
        known_names = dict.fromkeys(self.registry.find(name).name for name in names)
        return [name for name in known_names if name in self.there]
