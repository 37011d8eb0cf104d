"""Certificates of a cluster: temporary ones, those of a folder, and never in a log, a manifest or an argument.

Every member of a cluster holds the same certificate and key: whoever has the key belongs to it.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from distributed import Security

from pipeline.errors import InputError

#: As in a Kubernetes secret of type kubernetes.io/tls, so that those of cert-manager do.
CA, CERTIFICATE, KEY = "ca.crt", "tls.crt", "tls.key"
FILES = (CA, CERTIFICATE, KEY)
OFF = "off"


def temporary() -> Security:
    """A certificate and a key that exist in memory only, for all members of one cluster, for a year.

    Those of `distributed.Security.temporary` have an RSA key, which takes a tenth of a second or two to find and
    makes every connection dearer; here it is one on the curve P-256.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "ikmap")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(subject_name=name, issuer_name=name, public_key=key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))  # clocks of other machines may be late
        .not_valid_after(now + timedelta(days=365))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
        .public_bytes(Encoding.PEM)
    )
    return _for_all(
        certificate.decode(),
        certificate.decode(),
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode(),
    )


def _for_all(ca: str, certificate: str, key: str) -> Security:
    """The same for every member of a cluster; each is a path or the text itself."""
    roles = {f"tls_{role}_{kind}": given for role in ("client", "scheduler", "worker")
             for kind, given in (("cert", certificate), ("key", key))}  # fmt: skip
    return Security(require_encryption=True, tls_ca_file=ca, **roles)


def from_folder(folder: Path) -> Security:
    """The certificate and key of a folder, for all members of the cluster.

    Raises
    ------
    InputError
        If a file is missing, others may read the key, they do not belong together, or the certificate has expired.
    """
    paths = [folder / name for name in FILES]
    for path in paths:
        if not path.is_file():
            raise InputError(
                f"{path}: no such file, expected {', '.join(FILES)} (python -m cluster.certificates makes it)"
            )
    if paths[2].stat().st_mode & 0o007:
        raise InputError(f"{paths[2]}: anybody may read this key, expected chmod 600")
    from cryptography import x509  # which Dask needs for its temporary ones

    ca, certificate, key = (str(path.absolute()) for path in paths)
    try:
        context = ssl.create_default_context(cafile=ca)
        context.load_cert_chain(certificate, key)
    except (ssl.SSLError, OSError) as error:
        reason = error.reason if isinstance(error, ssl.SSLError) else error.strerror
        raise InputError(f"{folder}: no certificate and key that belong together ({reason})") from None
    ends = x509.load_pem_x509_certificate(Path(certificate).read_bytes()).not_valid_after_utc
    if ends < datetime.now(UTC):
        raise InputError(
            f"{certificate}: this certificate expired on {ends:%Y-%m-%d}; make another one in an "
            f"empty folder (python -m cluster.certificates DIR), for all members of the cluster"
        )
    return _for_all(ca, certificate, key)


def of(values: Mapping[str, Any], kind: str, say: Callable[[str], None]) -> Security | None:
    """Security of a cluster that is started: temporary unless ``tls`` says otherwise; for off none, and a warning."""
    chosen = values.get("tls")
    if chosen == OFF:
        say(warning(f"--cluster {kind}", "leave out --cluster-option tls=off"))
        return None
    return temporary() if chosen is None else from_folder(Path(chosen).expanduser())


def protocol(security: Security | None) -> str:
    """Return the protocol between the members of a cluster."""
    return "tcp://" if security is None else "tls://"


def warning(name: str, remedy: str) -> str:
    """One line for a person who uses a cluster without TLS."""
    return f"warning: {name} is not encrypted, and whoever reaches its port can run code as you; {remedy}"


def contents(security: Security) -> dict[str, str]:
    """Text of the three files, for a secret store."""
    config = security.get_tls_config_for_role("worker")
    texts = dict(zip(FILES, (config["ca_file"], config["cert"], config["key"]), strict=True))
    return {name: text if "\n" in text else Path(text).read_text() for name, text in texts.items()}


def write(folder: Path, security: Security) -> None:
    """Write the files, readable by nobody else.

    Raises
    ------
    FileExistsError
        If one of them is there.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for name, text in contents(security).items():
        with open(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)


@contextmanager
def files(security: Security, folder: Path) -> Iterator[list[str]]:
    """Words of a Dask command line that belong to ``security``: paths in ``folder``, where it keeps temporary ones."""
    config = security.get_tls_config_for_role("worker")
    if "\n" in config["key"]:
        write(folder, security)
        paths = [str(folder / name) for name in FILES]
    else:
        paths = [config["ca_file"], config["cert"], config["key"]]
    try:
        yield [
            word
            for flag, path in zip(("ca-file", "cert", "key"), paths, strict=True)
            for word in (f"--tls-{flag}", path)
        ]
    finally:
        if "\n" in config["key"]:
            for path in paths:
                Path(path).unlink(missing_ok=True)
