"""File systems of remote addresses: those of fsspec; S3 by Arrow where s3fs is not installed; http through proxies."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

import fsspec
from fsspec.core import url_to_fs
from fsspec.implementations.arrow import ArrowFSWrapper
from fsspec.spec import AbstractFileSystem

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

    def __init__(self, bucket: str = "", endpoint: str | None = None, **options: Any) -> None:
        from pyarrow.fs import S3FileSystem, resolve_s3_region

        region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        own: dict[str, Any] = {}
        if endpoint is not None:
            parts = urlsplit(endpoint if "//" in endpoint else f"https://{endpoint}")
            own = {"endpoint_override": parts.netloc, "scheme": parts.scheme}
        elif region is None and bucket:
            region = resolve_s3_region(bucket)
        super().__init__(S3FileSystem(region=region, connect_timeout=CONNECT_SECONDS, **own), **options)

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        """Bucket and key."""
        return str(AbstractFileSystem._strip_protocol.__func__(cls, path))

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, Any]:
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        return {"bucket": urlsplit(path).netloc, "endpoint": endpoint}


if find_spec("s3fs") is None:
    for name in S3:
        fsspec.register_implementation(name, ArrowS3, clobber=True)


def filesystem(url: str) -> tuple[Any, str]:
    """The file system of an address, and the path there. Proxies are those that the environment names."""
    options: dict[str, Any] = {}
    if url.startswith(("http://", "https://")):
        options = {"client_kwargs": {"trust_env": True}}
    fs, path = url_to_fs(url, **options)
    return fs, path
