"""What learners say of themselves is what they do."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ikmap.methods import LEARNERS


@pytest.mark.parametrize("module", sorted({module for learner in LEARNERS.values() for module in learner.models}))
def test_modules_of_models_define_kinds(module: str) -> None:
    found = __import__(module, fromlist=["kind"])
    assert any(getattr(value, "__module__", "") == module and hasattr(value, "kind") for value in vars(found).values())


def test_a_process_that_has_imported_nothing_else_can_read_every_kind_of_model() -> None:
    script = (
        "import ikmap.methods, ikmap.model; ikmap.methods.import_models(); print(*sorted(ikmap.model.MODELS), sep=',')"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert {"linear", "kernel", "mapped", "fourier", "nystroem", "chi2"} <= set(done.stdout.strip().split(","))


def test_declarations_import_nothing_heavy() -> None:
    script = "import sys, ikmap.methods; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not {"numpy", "scipy", "numba", "sklearn"} & set(done.stdout.split())
