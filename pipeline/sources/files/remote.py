"""File systems of remote addresses: those of fsspec; S3 by Arrow where s3fs is not installed; http through proxies."""

from __future__ import annotations

import os
from importlib.util import find_spec
from urllib.request import getproxies

import fsspec
from fsspec.core import url_to_fs
from fsspec.implementations.arrow import ArrowFSWrapper
from fsspec.spec import AbstractFileSystem

from pipeline.errors import InputError
from pipeline.urls import WEB, Location, Url, apart

S3 = ("s3", "s3a")
CONNECT_SECONDS = 10.0


class ArrowS3(ArrowFSWrapper):
    """Buckets of S3, with credentials as all programs of AWS find them.

    Parameters
    ----------
    bucket : str
        By whose name its region is found, unless that is in the environment.
    endpoint : str, optional
        Address of another server that speaks S3.
    """

    protocol = S3

    def __init__(self, bucket: str = "", endpoint: str | None = None, **options: object) -> None:
        from pyarrow.fs import S3FileSystem, resolve_s3_region

        region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        own: dict[str, object] = {}
        if endpoint is not None:
            parts = server_in(endpoint if "//" in endpoint else f"https://{endpoint}", "AWS_ENDPOINT_URL")
            own = {"endpoint_override": parts.server.partition("://")[2], "scheme": parts.scheme}
        elif region is None and bucket:
            region = resolve_s3_region(bucket)
        super().__init__(S3FileSystem(region=region, connect_timeout=CONNECT_SECONDS, **own), **options)

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        """Bucket and key."""
        return str(AbstractFileSystem._strip_protocol.__func__(cls, path))

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, str | None]:
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        return {"bucket": apart(path).host, "endpoint": endpoint}


if find_spec("s3fs") is None:
    for name in S3:
        fsspec.register_implementation(name, ArrowS3, clobber=True)


def filesystem(url: str) -> tuple[AbstractFileSystem, str]:
    """Return the file system of a location, and the path there. Proxies are those that the environment names.

    Raises
    ------
    InputError
        The query of the location was left out where it was stored.
    """
    place = Location(url)
    refuse_without_query(place)
    options: dict[str, object] = {}
    if place.is_web:
        check_proxies()
        options = {"client_kwargs": {"trust_env": True}}
    fs, path = url_to_fs(place.whole, **options)
    return fs, path


def refuse_without_query(place: Location) -> None:
    """Refuse a location that comes from a file of a run, in which queries are left out.

    Raises
    ------
    InputError
    """
    if place.lacks_query:
        raise InputError(
            f"{place}: found no query, expected the whole address: queries may be signed and are never stored, so give "
            "it again, in quotes"
        )


def check_proxies() -> None:
    """Refuse a proxy whose address cannot be taken apart: errors of the clients would tell half its password.

    Raises
    ------
    InputError
    """
    for scheme, address in getproxies().items():
        if scheme in WEB:
            _ = server_in(address if "//" in address else f"http://{address}", f"{scheme.upper()}_PROXY")


def headers_for(place: Location) -> dict[str, str]:
    """Headers for web servers that the user's settings of fsspec have, such as ``FSSPEC_HTTPS``."""
    headers: dict[str, str] = fsspec.config.conf.get(apart(place).scheme, {}).get("headers", {})
    return dict(headers)


def server_in(address: str, where: str) -> Url:
    """The parts of the address of a server that the environment names.

    Raises
    ------
    InputError
        It has none.
    """
    parts = apart(address)
    if parts.odd or not parts.host:
        raise InputError(f"{where}: found an address that cannot be taken apart, expected http://HOST:PORT")
    return parts
