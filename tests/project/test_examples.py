"""Examples do what they say, on few rows."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from tests import ROOT


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
