"""URLs: the one place that takes them apart, and the one that writes them for people.

A URL may carry secrets: a password or token before its host, or a signature in its query. The first are refused. The
query is kept in memory, for whoever opens the URL, and is never written: `Location` is a text that may be shown and
stored, with an attribute that opens what it names. `without_secrets` is the net below all that is shown or logged: it
finds the URLs in a text, and the queries of this process's locations without their URLs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple
from urllib.parse import quote, unquote

LEFT_OUT = "..."
"""Text in place of a part of a URL that is not written."""
_STORED = f"?{LEFT_OUT}"
"""Text in place of a query that is stored; a query that is no longer hides nothing."""
WEB = ("http", "https")
_WITHOUT_HOST = ("file", "local", "memory", "zip", "tar", "libarchive")
"""Schemes after which a path follows."""
_WITH_NAMES = ("sftp", "ssh", "ftp", "smb", "hdfs", "webhdfs", "abfs", "abfss", "wasb", "wasbs", "az", "adl")
"""Schemes that may have the name of a user or of a container before the host, which is no secret."""

# Characters that part a URL, also percent-encoded, once or several times.
_COLON, _SLASH, _AT, _MARK = (rf"(?:{sign}|%(?:25)*{code})" for sign, code in
                              ((":", "3A"), ("/", "2F"), ("@", "40"), ("[?#]", "(?:3F|23)")))  # fmt: skip
_SCHEME = r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]+"
_START = re.compile(rf"({_SCHEME})(?:{_COLON}{_SLASH}{{1,2}})", re.I)
_LINK = rf"(?=\s*{_SCHEME[len('(?<![A-Za-z0-9+.-])') :]}:[:/])"
"""Pattern before another URL, or before another link of a chain."""
_AUTHORITY = re.compile(r"(?:\[([^\]]*)\]|([^:\[\]]*))(?::(\d*))?")
_WEB_QUERY = re.compile(_MARK, re.I)
_OTHER_QUERY = re.compile(rf"{_MARK}(?=[\w.~%-]+(?:=|%(?:25)*3D))", re.I)
"""Elsewhere than on the web ? stands for any character, in globs, and # is a character of names."""
_IN_TEXT = re.compile(rf"{_SCHEME}{_COLON}{_SLASH}[^\s\"'<>]*", re.I)
_AFTER_IN_TEXT = re.compile(r"(?<![?#])(?<![?#]\.)(?<![?#]\.\.)[.,;:)\]]+$")
_queries: set[str] = set()
"""The queries of this process's locations: clients repeat them without the URL, as that of S3 does in its keys."""
_TO_QUOTE = re.compile(r"[\x00-\x20\x7f\"'<>\\^`{|}]")

REFUSED = (
    "found a password in an address, or a token, expected it in the environment (AWS_SECRET_ACCESS_KEY, "
    'FSSPEC_SFTP_PASSWORD and the like; for https FSSPEC_HTTPS=\'{"headers": {"Authorization": "Bearer ..."}}\'): '
    "options are written into run.toml, reports and logs; an @ that belongs to a path is written %40"
)


class Url(NamedTuple):
    """The parts of a URL. Of a path, which has no scheme, all is `path`.

    Attributes
    ----------
    scheme : str
        In small letters.
    user : str
        What stands before the host: a name, or a secret.
    host : str
        Without the brackets of an IPv6 address.
    port : int or None
    path : str
        With its leading slash.
    query : str
        Query and fragment, with the ``?`` or ``#`` in front.
    odd : bool
        What follows the host is no port; it may be half a password.
    """

    scheme: str = ""
    user: str = ""
    host: str = ""
    port: int | None = None
    path: str = ""
    query: str = ""
    odd: bool = False

    @property
    def has_credentials(self) -> bool:
        """True if `user` is a secret."""
        return bool(self.user) and (self.scheme not in _WITH_NAMES or re.search(_COLON, self.user, re.I) is not None)

    @property
    def server(self) -> str:
        """Scheme, host and port alone."""
        host = f"[{self.host}]" if re.fullmatch("[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*", self.host) else self.host
        return f"{self.scheme}://{host}{'' if self.port is None else f':{self.port}'}"

    def __str__(self) -> str:
        """Return the whole URL, with all that it carries."""
        if not self.scheme:
            return self.path + self.query
        user = f"{self.user}@" if self.user else ""
        return f"{self.scheme}://{user}{self.server.partition('://')[2]}{self.path}{self.query}"

    def written(self) -> str:
        """Return the URL for people: without credentials and without the query."""
        if self.odd:
            return f"{self.scheme}://{LEFT_OUT}"
        return str(
            self._replace(user=LEFT_OUT if self.has_credentials else self.user, query=_query_written(self.query))
        )


def _query_written(query: str) -> str:
    """The mark of a query alone."""
    return (query[0] if query[0] in "?#" else "?") + LEFT_OUT if query else ""


def apart(url: str) -> Url:
    """Take a URL apart; a chain of URLs or a list is no URL (`Location.several`, `Location.links`)."""
    start = _START.match(url)
    if start is None:
        return Url(path=url)
    scheme, rest = start[1].lower(), url[start.end() :]
    front, query = _cut(scheme, rest)
    if scheme in _WITHOUT_HOST:
        return Url(scheme, path=front, query=query)
    end = _end_of_user(scheme, front, query)
    user, rest = re.sub(f"{_AT}$", "", rest[:end], flags=re.I), rest[end:]
    front, query = _cut(scheme, rest)
    authority, slash, path = front.partition("/")
    parts = _AUTHORITY.fullmatch(authority)
    # A scheme of its own may have colons in its hosts, as the names of buckets of S3 have.
    odd = parts is None and scheme in WEB
    host, port = (parts[1] or parts[2], parts[3]) if parts else (authority, None)
    return Url(scheme, user, host, int(port) if port else None, slash + path, query, odd)


def _cut(scheme: str, rest: str) -> tuple[str, str]:
    """Return the part before the query, and the query."""
    match = (_WEB_QUERY if scheme in WEB else _OTHER_QUERY).search(rest)
    return (rest, "") if match is None else (rest[: match.start()], rest[match.start() :])


def _end_of_user(scheme: str, front: str, query: str) -> int:
    """Return where the host begins: behind the @ of a user, whatever characters his password has; 0 without one."""
    authority = front.partition("/")[0]
    user, at, _ = authority.rpartition("@")
    if at and scheme not in WEB and ":" not in user:
        return len(user) + 1
    if at or scheme in WEB or ":" in authority:
        # A password may have a slash, and whoever means the @ of a path can write %40.
        if end := front.rfind("@") + 1:
            return end
        odd = _AUTHORITY.fullmatch(authority) is None
        if odd or re.match(r"[?#][^=@]*@", query):
            ends = [match.end() for match in re.finditer(_AT, front + query, re.I)]
            return ends[-1] if ends else 0
    return 0


def refuse_credentials(text: str) -> None:
    """Refuse a text that has a password or token in an address, in any of its places.

    Raises
    ------
    ValueError
        The line says what to do, and repeats nothing.
    """
    if any(url.has_credentials for form in (text, _decoded(text)) for url in _urls_in(form)):
        raise ValueError(REFUSED)


def with_query_encoded(text: str) -> str:
    """Return a word that somebody has typed so that its URLs end where it ends, or where the next one begins.

    In a message, a space or a quote in a query would be taken for its end.
    """
    return "".join(map(_with_query_encoded, _links(text)))


def _with_query_encoded(link: str) -> str:
    begin = re.search(r"https?:/{1,2}[^?#]*[?#]", link, re.I)
    return (
        link if begin is None else link[: begin.end()] + _TO_QUOTE.sub(lambda sign: quote(sign[0]), link[begin.end() :])
    )


def _urls_in(text: str) -> Iterator[Url]:
    ends = [*(match.start() for match in _START.finditer(text)), len(text)]
    for start, end in pairwise(ends):
        yield apart(text[start:end])


def _decoded(text: str) -> str:
    """The text with its outermost encodings taken off, if a URL is inside them; else nothing."""
    if "://" in text:
        return ""
    while "%" in text and text != (text := unquote(text)):
        pass
    return text


def without_secrets(text: str) -> str:
    """Return a text of others, such as an error of a library, with the URLs in it written for people."""
    for query in sorted(_queries, key=len, reverse=True):  # one may begin as another does
        text = text.replace(query, _query_written(query))
    if ":/" not in text and "%" not in text:
        return text
    return _IN_TEXT.sub(lambda found: _written_in_text(found[0]), text)


def _written_in_text(url: str) -> str:
    after = _AFTER_IN_TEXT.search(url)
    url, rest = (url[: after.start()], after[0]) if after else (url, "")
    return "".join(map(_written, _links(url))) + rest


def _written(link: str) -> str:
    """A link of a chain for people; one that has nothing to hide stays as it is."""
    start = _START.search(link)
    if start is None:
        return link
    before = link[: start.start()]
    if "%" in start[0]:  # encoded as a whole
        return f"{before}{start[1]}%3A{LEFT_OUT}"
    url = apart(link[start.start() :])
    return before + url.written() if url.odd or url.has_credentials or url.query else link


def _links(url: str) -> list[str]:
    """The links of a chain and the items of a list, with what stands between them."""
    return re.split(rf"((?:::|,){_LINK})", url)


def path_and_part(path: str) -> tuple[str, str | None]:
    """Return the path of a local file, and what stands behind a ``#``: the part of a file, such as a table of SQLite's.

    A name that has a ``#`` of its own stays as it is.
    """
    file, mark, part = path.partition("#")
    return (file, part) if mark and not os.path.exists(path) and os.path.isfile(file) else (path, None)


class Location(str):
    """A place of data: a path, a URL, a chain of URLs of fsspec, or a list of these with commas between.

    The text is what may be shown and stored: of a query it has only the mark, ``https://host/rows.csv?...``.

    Parameters
    ----------
    given : str or Path
        As the user has named it.

    Attributes
    ----------
    whole : str
        What opens it, with the query.
    """

    whole: str

    def __new__(cls, given: str | os.PathLike[str]) -> Location:
        """Take over what a user has named; a location stays as it is."""
        if isinstance(given, Location):
            return given
        text = os.fspath(given)
        if _START.search(text):
            text = "".join(_tidy(part) for part in _links(text.strip()))
        self = super().__new__(cls, "".join(map(_written, _links(text))))
        self.whole = text
        queries = (url.query for link in _links(text) for url in _urls_in(link))
        _queries.update(form for query in queries for form in (query, unquote(query)) if len(form) > len(_STORED))
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return Location, (self.whole,)

    @property
    def is_local(self) -> bool:
        """True if it is a path of files of this machine."""
        return self.startswith("file://") or ("://" not in self and "::" not in self)

    @property
    def is_web(self) -> bool:
        """True if a web server has it."""
        return self.partition("://")[0] in WEB

    @property
    def lacks_query(self) -> bool:
        """True if its query was left out where it was stored, so that nothing can open it."""
        return re.search(rf"[?#]{re.escape(LEFT_OUT)}(?=$|,|::)", self.whole) is not None

    @property
    def place(self) -> str:
        """The location without its query, and without the mark of one."""
        return re.sub(rf"[?#]{re.escape(LEFT_OUT)}(?=$|,|::)", "", self)

    @property
    def name(self) -> str:
        """Name of the file: the last part of the path, of a chain that of its first link with one."""
        links = _links(self.place)
        return next((link for link in links if "/" in link), links[0]).rstrip("/").rpartition("/")[2]

    def several(self) -> list[Location]:
        """Return the items of a list; a comma in a query belongs to it, unless another URL follows."""
        locations: list[Location] = []
        for item in re.split(rf",{_LINK}", self.whole):
            cut = re.search(r"[?#]", item) if "://" in item else None
            head, tail = (item, "") if cut is None else (item[: cut.start()], item[cut.start() :])
            parts = head.split(",")
            parts[-1] += tail
            locations += [Location(part.strip()) for part in parts if part.strip()]
        return locations


def _tidy(link: str) -> str:
    """A URL with its scheme in small letters; on the web also with what no URL may have percent-encoded."""
    start = re.match(rf"({_SCHEME}):/{{1,2}}", link.strip())
    if start is None:
        return link
    scheme, rest = start[1].lower(), link.strip()[start.end(1) :]
    if scheme not in WEB:
        return scheme + rest
    return f"{scheme}://{_TO_QUOTE.sub(lambda found: quote(found[0]), link.strip()[start.end() :])}"
