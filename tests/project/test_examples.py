"""Examples do what they say, on few rows."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.options.batch import BatchOptions
from tests import ROOT
from tests.support.one_process import Command, one_process


def test_a_sweep_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    X = rng.random((80, 2))
    lines = ["a,b,c", *(f"{a:.4f},{b:.4f},{a + b * b:.4f}" for a, b in X)]
    (tmp_path / "rows.csv").write_text("\n".join(lines))
    module = runpy.run_path(str(ROOT / "examples" / "lifetime_sweep.py"))
    draw = module["main"].__globals__
    for name, value in {"TREES": 4, "FRAMES": 5, "GRID": 6}.items():
        monkeypatch.setitem(draw, name, value)
    module["main"](["--data", str(tmp_path / "rows.csv"), "--columns", "a,b,c", "--output", str(tmp_path / "s.svg")])
    text = (tmp_path / "s.svg").read_text()
    picture = ElementTree.fromstring(text)
    groups = [one.get("id") for one in picture.iter() if one.tag.endswith("}g")]
    assert groups == [f"f{k}" for k in range(5)]
    assert len(re.findall('class="cut', text)) > 5


@pytest.mark.slow
def test_tables_in_python(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    module = runpy.run_path(str(ROOT / "examples" / "tables.py"))
    module["main"](["--rows", "300"])
    said = capsys.readouterr().out
    assert "column airport: category" in said
    assert float(re.findall(r"ROC AUC (\S+) with", said)[0]) > 0.7
    table, late = module["flights"](200)
    pq.write_table(table.append_column("label", pa.array(late)), tmp_path / "rows.parquet")
    with one_process():
        options = BatchOptions(
            input=str(tmp_path / "rows.parquet"), learner=("svm",), t=5, psi=8, C=1.0, calibration="platt"
        )
        Command(options).run(tmp_path / "run")
    turned = table.select(table.column_names[::-1]).append_column("more", table["distance"])
    pq.write_table(turned, tmp_path / "new.parquet")
    module["main"](["--run", str(tmp_path / "run"), "--input", str(tmp_path / "new.parquet")])
    said = capsys.readouterr().out
    assert "features: airport (target), departure.month" in said
    assert re.search(r"row 0: (true|false), with a probability of (0\.[5-9]\d|1\.00)", said)
