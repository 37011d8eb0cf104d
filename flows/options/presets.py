"""The methods of the papers by one name each: the options that ``--preset NAME`` of ``flows.batch`` stands for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ikmap.methods.kinds import nearest
from pipeline.errors import InputError

PRESETS: Mapping[str, Mapping[str, Any]] = {
    # Isolation Kernel: linear SVM on Voronoi cells, psi by cross-validation (IK_a-SVM).
    "isolation-kernel": {
        "learner": ("svm",),
        "partitioner": "anne",
        "t": 100,
        "C": 1.0,
        "select_by": "accuracy",
    },
    # The same kernel on a stream: gradient descent on isolation trees (IK_i-OGD).
    "isolation-kernel-online": {
        "learner": ("ogd",),
        "partitioner": "iforest",
        "t": 100,
        "select_by": "accuracy",
    },
    # Min-max kernel by weighted minwise hashes: linear SVM on codes of 8 bits.
    "gmm": {
        "learner": ("svm",),
        "partitioner": "gcws",
        "t": 256,
        "b": 8,
        "p": 1.0,
        "C": "auto",
        "select_by": "accuracy",
    },
    # eGMM kernel in two stages: hashes, then Fourier features.
    "egmm": {"learner": ("two-stage-gmm",)},
    # Laplacian kernel by Mondrian trees: ridge regression, the lifetime by one sweep.
    "mondrian": {"learner": ("ridge",), "partitioner": "mondrian", "t": 50},
    # Online learning with kernels, on the rows themselves.
    "norma": {"learner": ("norma-dual",), "kernel": "gaussian"},
    # Random Fourier features of the Gaussian kernel, and a linear SVM.
    "fourier": {"learner": ("fourier-linear",), "kernel": "gaussian", "features": 500},
}
"""Options of each preset, as the papers have them; others are at their defaults."""


def with_preset(name: str, values: Mapping[str, Any], scopes: Mapping[str, Mapping[str, object]]) -> dict[str, Any]:
    """Return options with those of a preset; what is given explicitly wins.

    Where another learner or map is given, options that neither has are left out.

    Parameters
    ----------
    name : str
        Name of the preset.
    values : mapping
        Options that are given, by name; "scoped" has those of single methods.
    scopes : mapping
        Options of each method, by its name.

    Raises
    ------
    InputError
        There is no such preset.
    """
    if name not in PRESETS:
        near = nearest(name, PRESETS)
        hint = f"did you mean {near}? " if near else ""
        raise InputError(f"--preset {name}: {hint}expected one of {', '.join(PRESETS)}")
    made = {**PRESETS[name], **values}
    used = [*made["learner"], *str(made.get("partitioner", "")).split(",")]
    of_used = {option for method in used for option in scopes.get(method, ())}
    of_methods = {option for options in scopes.values() for option in options}
    given = {"scoped", *values} | {key for table in values.get("scoped", {}).values() for key in table}
    left_out = {key for key in made if key in of_methods and key not in of_used}
    # A criterion is refused where there is nothing left to choose.
    if all(made.get(key, "auto" if key == "psi" else 0) != "auto" for key in ("psi", "C", "lifetime")):
        left_out |= {"select_by"}
    return {key: value for key, value in made.items() if key in given or key not in left_out}
