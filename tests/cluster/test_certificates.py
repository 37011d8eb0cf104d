"""Certificates of a cluster: whoever holds them is a member, nobody else reads them."""

from __future__ import annotations

import stat
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

from cluster import certificates, remote
from pipeline.errors import InputError
from tests import ROOT
from tests.support.narrow import present


@pytest.mark.slow
def test_certificates_are_written_for_nobody_else(tmp_path: Path) -> None:
    folder = tmp_path / "tls"
    done = subprocess.run(
        [sys.executable, "-m", "cluster.certificates", folder], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert {path.name for path in folder.iterdir()} == set(certificates.FILES)
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in folder.iterdir())
    assert "PRIVATE KEY" in (folder / certificates.KEY).read_text()
    assert "PRIVATE" not in done.stdout + done.stderr
    security = certificates.from_folder(folder)
    assert security.require_encryption
    assert certificates.contents(security) == {name: (folder / name).read_text() for name in certificates.FILES}
    again = subprocess.run(
        [sys.executable, "-m", "cluster.certificates", folder], cwd=ROOT, capture_output=True, text=True
    )
    assert (again.returncode, again.stderr) == (2, f"error: {folder / certificates.CA}: File exists\n")


def test_certificates_that_cannot_be_used(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    certificates.write(one, certificates.temporary())
    certificates.write(two, certificates.temporary())
    with pytest.raises(InputError, match="no such file"):
        certificates.from_folder(tmp_path)
    (one / certificates.KEY).chmod(0o644)
    with pytest.raises(InputError, match="anybody may read this key"):
        certificates.from_folder(one)
    (one / certificates.KEY).unlink()
    (two / certificates.KEY).rename(one / certificates.KEY)
    with pytest.raises(InputError, match="belong together"):
        certificates.from_folder(one)


def test_temporary_files_go_with_the_cluster(tmp_path: Path) -> None:
    with certificates.files(certificates.temporary(), tmp_path / "a") as words:
        paths = [Path(word) for word in words[1::2]]
        assert words[::2] == ["--tls-ca-file", "--tls-cert", "--tls-key"]
        assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in paths)
    assert not any(path.exists() for path in paths)
    certificates.write(tmp_path / "b", certificates.temporary())
    with certificates.files(certificates.from_folder(tmp_path / "b"), tmp_path / "a") as words:
        assert words[-1] == str(tmp_path / "b" / certificates.KEY)
    assert (tmp_path / "b" / certificates.KEY).exists()


def test_clusters_speak_tls_unless_told_not_to() -> None:
    said: list[str] = []
    assert present(certificates.of({}, "slurm", said.append)).require_encryption
    assert remote.scheduler_options({}, certificates.of({}, "slurm", said.append))["protocol"] == "tls://"
    assert said == []
    assert certificates.of({"tls": "off"}, "slurm", said.append) is None
    assert said == [
        "warning: --cluster slurm is not encrypted, and whoever reaches its port can run code as you; "
        "leave out --cluster-option tls=off"
    ]
    assert remote.scheduler_options({}, None)["dashboard_address"] == "127.0.0.1:0"


def test_an_expired_certificate_is_told(tmp_path: Path) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    certificates.write(tmp_path, certificates.temporary())
    key = serialization.load_pem_private_key((tmp_path / certificates.KEY).read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    old = x509.load_pem_x509_certificate((tmp_path / certificates.CERTIFICATE).read_bytes())
    builder = x509.CertificateBuilder(old.issuer, old.subject, key.public_key(), 1)
    builder = builder.not_valid_before(datetime(2001, 1, 1)).not_valid_after(datetime(2002, 1, 1))
    expired = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    (tmp_path / certificates.CERTIFICATE).write_bytes(expired)
    with pytest.raises(
        InputError,
        match=r"tls\.crt: .* expired on 2002-01-01; make another one .*cluster\.certificates DIR",
    ):
        certificates.from_folder(tmp_path)
