"""URLs: what is taken for a secret in them, and what is written of them."""

from __future__ import annotations

import copy
import pickle

import pytest

from pipeline.urls import Location, apart, refuse_credentials, with_query_encoded, without_secrets
from tests.soaks.url_secrets import CREDENTIALS, SIGNED

SECRET = "0123456789abcdef01234567"
HALVES = SECRET[:12], SECRET[12:]

HARMLESS = [
    "https://host/rows.csv", "http://[::1]:80/rows.csv", "s3://bucket/a:b@c.csv", "s3://bucket/a@b.csv",
    "s3://bucket/part-?.csv", "s3://arn:aws:s3:us:12:accesspoint/x/key", "abfs://box@account.net/rows.csv",
    "sftp://ann@host:22/a@b.csv", "hdfs://name:8020/user/rows.csv", "file:///a@b.csv", "file:/tmp/x@y.json",
    "memory://a@b.csv", "zip://a@b.csv::https://host/rows.zip", "simplecache::https://host/rows.csv",
    "https://host/a%40b.csv", "/data/a@b:c?.csv", "data/part-?.csv", "a, b.csv", "tcp://host:8786", "",
]  # fmt: skip


@pytest.mark.parametrize("form", CREDENTIALS)
def test_credentials_are_refused_and_written_nowhere(form: str) -> None:
    url = CREDENTIALS[form](SECRET, "host:8080")
    with pytest.raises(ValueError, match="found a password in an address") as refused:
        refuse_credentials(url)
    with pytest.raises(ValueError, match="found a password"):
        refuse_credentials(f"a.csv, {url.strip()}")
    shown = str(Location(url))
    assert not any(half in text for half in HALVES for text in (str(refused.value), shown, repr(Location(url))))
    if " " not in url.strip():  # in a text of others nobody knows where that URL ends
        assert not any(half in without_secrets(f"cannot open '{url}', as said") for half in HALVES)


@pytest.mark.parametrize("form", SIGNED)
def test_queries_open_and_are_not_written(form: str) -> None:
    url = SIGNED[form](SECRET, "host:8080")
    refuse_credentials(url)
    place = Location(url)
    assert not any(half in str(place) or half in repr(place) for half in HALVES)
    assert all(half in place.whole for half in HALVES)
    assert not place.lacks_query
    assert Location(str(place)).lacks_query
    assert [one.whole for again in (pickle.loads(pickle.dumps(place)), copy.deepcopy(place)) for one in [again]] == [
        place.whole
    ] * 2
    assert without_secrets(str(place)) == str(place)
    if " " not in url.strip() and "'" not in url:
        unheard_of = SIGNED[form](SECRET[::-1], "host:8080").strip()
        assert not any(half[::-1] in without_secrets(f"403, url='{unheard_of}'") for half in HALVES)


@pytest.mark.parametrize(
    ("given", "text", "shown"),
    [
        ("s3://b/x.csv?sig=kept'1 2", "for key 'x.csv?sig=kept'1 2' in bucket", "for key 'x.csv?...' in bucket"),
        ("simplecache::s3://b/x.csv#sig=kept", "no x.csv#sig=kept", "no x.csv#..."),
        ("https://h/x.csv?sig=kept, https://h/y.csv?sig=kept2", "x.csv?sig=kept2", "x.csv?..."),
        ("https://h/x.csv?sig=kept%2F3", "GET /x.csv?sig=kept/3", "GET /x.csv?..."),
        ("https://h/x.csv?", "what?", "what?"),
    ],
)
def test_the_query_of_a_location_is_found_without_its_url(given: str, text: str, shown: str) -> None:
    Location(given)
    assert without_secrets(text) == shown


@pytest.mark.parametrize("text", HARMLESS)
def test_what_has_no_secret_stays_as_it_is(text: str) -> None:
    refuse_credentials(text)
    assert (str(Location(text)), Location(text).whole, without_secrets(f"{text}: no such file")) == (
        text, text, f"{text}: no such file",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("given", "written", "name"),
    [
        ("https://h/d/rows.csv.gz?sig=1#x", "https://h/d/rows.csv.gz?...", "rows.csv.gz"),
        ("HTTPS://h/rows.csv#x", "https://h/rows.csv#...", "rows.csv"),
        ("zip://rows.csv::https://h/a.zip?sig=1", "zip://rows.csv::https://h/a.zip?...", "rows.csv"),
        ("simplecache::https://h/rows.csv?sig=1", "simplecache::https://h/rows.csv?...", "rows.csv"),
        ("s3://b/rows.csv?versionId=1", "s3://b/rows.csv?...", "rows.csv"),
        ("https://h/a b.csv", "https://h/a%20b.csv", "a%20b.csv"),
        ("https://h?sig=1", "https://h?...", "h"),
    ],
)
def test_a_location_is_written_with_the_mark_of_its_query(given: str, written: str, name: str) -> None:
    assert (str(Location(given)), Location(given).name) == (written, name)


def test_a_comma_in_a_query_parts_nothing() -> None:
    several = Location("a.csv, https://h/b.csv?cols=1,2,s3://bucket/c.csv").several()
    assert [one.whole for one in several] == ["a.csv", "https://h/b.csv?cols=1,2", "s3://bucket/c.csv"]
    assert [str(one) for one in several] == ["a.csv", "https://h/b.csv?...", "s3://bucket/c.csv"]


def test_a_query_with_a_space_or_a_quote_ends_where_the_word_ends() -> None:
    for word in ("https://h/x?sig=a b", "tls=https://h/x?sig=a'b", 'https://h/x?sig=a"b,https://h/y?c d'):
        shown = without_secrets(f"found {with_query_encoded(word)!r}, expected none")
        assert shown == f"found {str(Location(word))!r}, expected none"
    for word in ("a b.csv", "s3://bucket/a b?.csv", "it's"):
        assert with_query_encoded(word) == word


def test_the_parts_of_a_url() -> None:
    url = apart("https://[::1]:8080/a/b.csv?c=d")
    assert (url.scheme, url.host, url.port, url.path, url.query) == ("https", "::1", 8080, "/a/b.csv", "?c=d")
    assert (url.server, str(url)) == ("https://[::1]:8080", "https://[::1]:8080/a/b.csv?c=d")
    assert apart("/data/rows.csv").path == "/data/rows.csv"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("(see https://h/x?sig=1).", "(see https://h/x?...)."),
        ("<https://h/x?sig=1>", "<https://h/x?...>"),
        ("https://h/x?..., then", "https://h/x?..., then"),
        ("url=https://ann:1@h/x", "url=https://...@h/x"),
        ("https://ann:one", "https://..."),
        ("line 3: found 50% of a:b", "line 3: found 50% of a:b"),
    ],
)
def test_urls_in_the_text_of_others(text: str, shown: str) -> None:
    assert without_secrets(text) == shown
