"""A server that speaks as much S3 as readers need: HEAD, GET with a range, and the list of a bucket's objects."""

from __future__ import annotations

import hashlib
import http.server
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from tests.support.serving import serving

OBJECT = (
    "<Contents><Key>{}</Key><LastModified>2024-01-01T00:00:00.000Z</LastModified><ETag>&quot;x&quot;</ETag>"
    "<Size>{}</Size><StorageClass>STANDARD</StorageClass></Contents>"
)


class S3(http.server.BaseHTTPRequestHandler):
    """Folders of `root` are buckets, their files objects."""

    protocol_version = "HTTP/1.1"

    def __init__(self, *given: Any, root: Path) -> None:
        self.root = root
        super().__init__(*given)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        parts = urllib.parse.urlsplit(self.path)
        bucket, _, key = urllib.parse.unquote(parts.path).lstrip("/").partition("/")
        if not key:
            self._list(self.root / bucket, urllib.parse.parse_qs(parts.query))
            return
        file = self.root / bucket / key
        if not file.is_file():
            self._send(404, b"<Error><Code>NoSuchKey</Code><Message>none</Message></Error>")
            return
        body = file.read_bytes()
        tag = {"ETag": f'"{hashlib.md5(body).hexdigest()}"', "Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT"}
        asked = self.headers.get("Range", "").removeprefix("bytes=").partition("-")
        if asked[0]:
            begin, end = int(asked[0]), min(int(asked[2] or len(body)), len(body) - 1)
            self._send(206, body[begin : end + 1], tag | {"Content-Range": f"bytes {begin}-{end}/{len(body)}"})
        else:
            self._send(200, body, tag)

    do_HEAD = do_GET

    def _list(self, bucket: Path, query: dict[str, list[str]]) -> None:
        if not bucket.is_dir():
            self._send(404, b"<Error><Code>NoSuchBucket</Code><Message>none</Message></Error>")
            return
        prefix, ends = query.get("prefix", [""])[0], query.get("delimiter", [""])[0]
        found, folders = [], set()
        for file in sorted(path for path in bucket.rglob("*") if path.is_file()):
            key = str(file.relative_to(bucket))
            rest = key.removeprefix(prefix)
            if key.startswith(prefix) and ends and ends in rest:
                folders.add(prefix + rest.partition(ends)[0] + ends)
            elif key.startswith(prefix):
                found.append(OBJECT.format(escape(key), file.stat().st_size))
        found += [f"<CommonPrefixes><Prefix>{escape(folder)}</Prefix></CommonPrefixes>" for folder in sorted(folders)]
        body = (
            '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            f"<Name>{bucket.name}</Name><Prefix>{escape(prefix)}</Prefix><KeyCount>{len(found)}</KeyCount>"
            f"<MaxKeys>1000</MaxKeys><IsTruncated>false</IsTruncated>{''.join(found)}</ListBucketResult>"
        )
        self._send(200, body.encode())

    def _send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        kind = "application/xml" if headers is None else "application/octet-stream"
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@contextmanager
def serving_buckets(root: Path) -> Iterator[str]:
    """Serve the folders in a folder as buckets: the address of the server."""
    with serving(partial(S3, root=root)) as address:
        yield address
