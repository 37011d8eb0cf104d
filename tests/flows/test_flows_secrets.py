"""No secret of a URL is printed or written: a few of the cases of ``python -m tests.soaks.url_secrets``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soaks.url_secrets import FORMS, PLACES, cases, everything, leaks, run_case, server
from tests.support.serving import serving

COUNT, SEED = 60, 7


def test_no_secret_is_printed_or_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("PREFECT_API_URL", "IKMAP_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect"))
    secrets, printed = {}, {}
    with serving(server(set())) as address:
        host = address.partition("://")[2]
        for k, (secret, form, place) in enumerate(cases(COUNT, SEED)):
            if form.startswith("s3") or place in ("endpoint", "output"):
                continue  # clients that try again and again
            secrets[secret] = f"{place}: {form}"
            call = PLACES[place](FORMS[form](secret, host))
            printed[f"printed by {place}: {form}"] = run_case(call, tmp_path / f"case{k}", str(tmp_path)).encode()
    assert len(secrets) > COUNT // 2
    assert leaks(secrets, everything(tmp_path) | printed) == []
    ends = {name: text.rpartition(b" ")[2] for name, text in printed.items()}
    assert {name: status for name, status in ends.items() if status != b"2"} == {}


def test_the_search_finds_secrets(tmp_path: Path) -> None:
    """As they are, in halves, encoded, and in the name of a file."""
    secret = "0123456789abcdef01234567"
    for text in (secret, secret[:12], f"x{secret[12:]}", "%30123456789abcdef01234567"):
        assert leaks({secret: "place"}, {"printed": text.encode()}) == ["place: printed"]
    (tmp_path / secret).mkdir()
    assert leaks({secret: "place"}, everything(tmp_path)) == [f"place: {tmp_path / secret}"]
    assert leaks({secret: "place"}, {"printed": b"0123"}) == []
