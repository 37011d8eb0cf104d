"""Parameters for tests that try many learners with one set of values."""

from __future__ import annotations

from typing import Any

from ikmap.methods import LEARNERS
from pipeline.params import Params
from pipeline.resolve import chosen, plain_fields


def params_for(**values: Any) -> Params:
    """Parameters from values by name, with all learners of classes on cells of ``anne`` unless some are named.

    What is searched goes by accuracy. Values that no chosen method has are left out, where a command refuses them.
    C is not searched unless asked for.
    """
    raw = values.get("feature_scale") == "raw"  # which ogd-dual refuses
    refusing = {"ogd-dual"} if raw else set()
    if "loss" in values:  # which says something else to these
        refusing |= {"norma", "norma-dual"}
    values = {
        "learners": tuple(
            name for name, one in LEARNERS.items() if "classification" in one.about.tasks and name not in refusing
        ),
        "partitioner": "anne",
        **({} if values.get("task") in ("regression", "novelty") else {"select_by": "accuracy"}),
        **values,
    }
    names = chosen(values["partitioner"], values["learners"], values)
    known = {*plain_fields(names), *Params.__dataclass_fields__}
    batch = [name for name in ("svm", "logistic") if name in names]
    values.setdefault("scoped", {} if "C" in values else {name: {"C": 5.0} for name in batch})
    known.add("scoped")
    return Params.given(**{name: value for name, value in values.items() if name in known})
