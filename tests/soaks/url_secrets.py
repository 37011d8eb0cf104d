"""Look for secrets of URLs in all that commands write: ``python -m tests.soaks.url_secrets [CASES] [SEED] [CASE ...]``.

Each case puts a secret of its own, in one of many forms, into one of the places where a URL can stand, and calls the
command; most of these are refused. Some whole runs read signed URLs from a server that wants the signature. All is done
without Prefect and with it. Then every file and every printed text is searched, for the secret and its halves, as they
are and percent-decoded; also Prefect's database. The last line has the number of secrets that were found. With numbers
of cases, those alone are run, and what each of them printed is shown.

In the suite, ``tests/flows/test_flows_secrets.py`` does a few of the cases.
"""

from __future__ import annotations

import contextlib
import dataclasses
import http.server
import io
import os
import random
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from multiprocessing.util import Finalize
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from unittest import mock
from urllib.parse import quote, unquote

from cluster import connect
from tests.support.serving import serving

ROWS = "a,b,label\n" + "".join(f"{i % 7},{i % 11},{int(i % 7 > 3)}\n" for i in range(120))

CREDENTIALS: dict[str, Callable[[str, str], str]] = {
    "password": lambda s, h: f"http://ann:{s}@{h}/x.csv",
    "token": lambda s, h: f"http://{s}@{h}/x.csv",
    "password alone": lambda s, h: f"https://:{s}@{h}/x.csv",
    "slash": lambda s, h: f"https://ann:{s[:12]}/{s[12:]}@{h}/x.csv",
    "slash in a token": lambda s, h: f"https://{s[:12]}/{s[12:]}@{h}/x.csv",
    "at": lambda s, h: f"https://ann:{s[:12]}@{s[12:]}@{h}/x.csv",
    "space": lambda s, h: f"https://ann:{s[:12]} {s[12:]}@{h}/x.csv",
    "question mark": lambda s, h: f"https://ann:{s[:12]}?{s[12:]}@{h}/x.csv",
    "hash": lambda s, h: f"https://ann:{s[:12]}#{s[12:]}@{h}/x.csv",
    "comma": lambda s, h: f"https://ann:{s[:12]},{s[12:]}@{h}/x.csv",
    "colons": lambda s, h: f"https://ann:{s[:12]}::{s[12:]}@{h}/x.csv",
    "upper case": lambda s, h: f"HTTPS://ann:{s}@{h}/x.csv",
    "leading space": lambda s, h: f" https://ann:{s}@{h}/x.csv",
    "encoded": lambda s, h: f"https://ann:{quote('/' + s, safe='')}@{h}/x.csv",
    "encoded at": lambda s, h: f"https://ann:{s}%40{h}/x.csv",
    "encoded colon": lambda s, h: f"sftp://ann%3A{s}@{h}/x.csv",
    "encoded as a whole": lambda s, h: quote(f"https://ann:{s}@{h}/x.csv", safe=""),
    "one slash": lambda s, h: f"https:/ann:{s}@{h}/x.csv",
    "chain": lambda s, h: f"simplecache::https://ann:{s}@{h}/x.csv",
    "file cache": lambda s, h: f"filecache::https://{s}@{h}/x.csv",
    "zip": lambda s, h: f"zip://x.csv::https://ann:{s}@{h}/x.zip",
    "list": lambda s, h: f"http://{h}/x.csv,http://ann:{s}@{h}/x.csv",
    "s3": lambda s, h: f"s3://KEY:{s}@bucket/x.csv",  # noqa: ARG005
    "s3 with a slash": lambda s, h: f"s3://KEY:{s[:12]}/{s[12:]}@bucket/x.csv",  # noqa: ARG005
    "sftp": lambda s, h: f"sftp://ann:{s}@{h}/x.csv",
}
_QUERIES = (
    "X-Amz-Credential=AK&X-Amz-Signature={s}", "X-Amz-Security-Token={s}", "sv=2020&sig={s}", "token={s}",
    "GoogleAccessId=a@b.com&Signature={s}", "access_token={s}", "key={s}", "format=csv&id={s}", "{s}", "q=a,{s}",
    "sig=/{s}==", "sig=%2F{s}%3D", "sig={s[0]}'{s}",
)  # fmt: skip


def _signed(query: str, s: str, h: str) -> str:
    return f"http://{h}/deny.csv?{query.format(s=s)}"


SIGNED: dict[str, Callable[[str, str], str]] = {
    **{query: partial(_signed, query) for query in _QUERIES},
    "fragment": lambda s, h: f"http://{h}/deny.csv#{s}",
    "fragment too": lambda s, h: f"http://{h}/deny.csv?a=1#sig={s}",
    "encoded mark": lambda s, h: f"http://{h}/deny.csv%3Fsig={s}",
    "upper case, signed": lambda s, h: f"HTTP://{h}/deny.csv?sig={s}",
    "leading space, signed": lambda s, h: f" http://{h}/deny.csv?sig={s}",
    "space in the query": lambda s, h: f"http://{h}/deny.csv?sig={s[:12]} {s[12:]}",
    "list, signed": lambda s, h: f"http://{h}/deny.csv?sig={s},http://{h}/deny.csv?sig={s}2",
    "list, second": lambda s, h: f"http://{h}/x.csv?free=1,http://{h}/deny.csv?sig={s}",
    "chain, signed": lambda s, h: f"simplecache::http://{h}/deny.csv?sig={s}",
    "file cache, signed": lambda s, h: f"filecache::http://{h}/deny.csv?sig={s}",
    "zip, signed": lambda s, h: f"zip://x.csv::http://{h}/deny.zip?sig={s}",
    "no path": lambda s, h: f"http://{h}?sig={s}",
    "one slash, signed": lambda s, h: f"http:/{h}/deny.csv?sig={s}",
    "s3, signed": lambda s, h: f"s3://nowhere/x.csv?X-Amz-Signature={s}",  # noqa: ARG005
    "file": lambda s, h: f"file:///nowhere/x.csv?sig={s}",  # noqa: ARG005
}
FORMS = CREDENTIALS | SIGNED


class Call(NamedTuple):
    """A call of a command: its name, its words, its environment, and files that it finds."""

    command: str
    words: list[str]
    environment: Mapping[str, str] = MappingProxyType({})
    files: Mapping[str, str] = MappingProxyType({})


def _toml(key: str) -> Callable[[str], Call]:
    def call(url: str) -> Call:
        text = "".join(f"{name} = {_quoted(value)}\n" for name, value in {"train": "x.csv", key: url}.items())
        return Call(
            "batch", ["--dataset-file", "sets.toml", "--dataset", "mine"], {}, {"sets.toml": f"[dataset.mine]\n{text}"}
        )

    return call


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


PLACES: dict[str, Callable[[str], Call]] = {
    "input": lambda url: Call("batch", ["--input", url]),
    "input, debug": lambda url: Call("batch", ["--input", url, "--debug"]),
    "input=": lambda url: Call("batch", [f"--input={url}"]),
    "test input": lambda url: Call("batch", ["--input", "x.csv", "--test-input", url, "--debug"]),
    "dataset": lambda url: Call("batch", ["--dataset", url]),
    "dataset file": lambda url: Call("batch", ["--dataset-file", url, "--dataset", "mine"]),
    "train": _toml("train"),
    "test": _toml("test"),
    "site": _toml("site"),
    "source": _toml("source"),
    "unknown key": _toml("adress"),
    "plan": lambda url: Call("batch", ["--input", "x.csv", "--columns-plan", url]),
    "config": lambda url: Call("batch", ["--config", "run.toml"], {}, {"run.toml": f"input = {_quoted(url)}\n"}),
    "config file": lambda url: Call("batch", ["--config", url]),
    "run directory": lambda url: Call("batch", ["--input", "none.csv", "--run-dir", url]),
    "data directory": lambda url: Call("batch", ["--dataset", "a9a", "--data-dir", url]),
    "cluster": lambda url: Call("batch", ["--input", "x.csv", "--cluster", url.replace("https://", "tls://")]),
    "cluster option": lambda url: Call("batch", ["--input", "none.csv", "--cluster-option", f"tls={url}"]),
    "IKMAP_CLUSTER": lambda url: Call("batch", ["--input", "none.csv"], {"IKMAP_CLUSTER": url}),
    "IKMAP_RUN_DIR": lambda url: Call("batch", ["--input", "none.csv"], {"IKMAP_RUN_DIR": url}),
    "IKMAP_DATA_DIR": lambda url: Call("batch", ["--dataset", "a9a"], {"IKMAP_DATA_DIR": url}),
    "IKMAP_WORKERS": lambda url: Call("batch", ["--input", "none.csv"], {"IKMAP_WORKERS": url}),
    "unexpected": lambda url: Call("batch", [url]),
    "unknown option": lambda url: Call("batch", ["--imput", url]),
    "a number": lambda url: Call("batch", ["--workers", url]),
    "label": lambda url: Call("batch", ["--input", "none.csv", "--label", url]),
    "stream": lambda url: Call("online", ["--input", url, "--initial", "50"]),
    "late labels": lambda url: Call("online", ["--input", "-", "--initial", "50", "--labels-input", url]),
    "alerts": lambda url: Call("online", ["--input", "none.csv", "--alerts", url]),
    "model": lambda url: Call("score", ["--model", url, "--input", "none.csv"]),
    "to score": lambda url: Call("score", ["--model", "{model}", "--input", url]),
    "output": lambda url: Call("score", ["--model", "{model}", "--input", "x.csv", "--output", url]),
    "sets of a paper": lambda url: Call("reproduce", ["--table", "5", "--dataset-file", url]),
    "directory of a paper": lambda url: Call("reproduce", ["--table", "5", "--datasets", "none", "--run-dir", url]),
    "data of a paper": lambda url: Call("reproduce", ["--table", "5", "--datasets", "a9a", "--data-dir", url]),
    "proxy": lambda url: Call("batch", ["--input", "http://127.0.0.1:1/x.csv", "--debug"], {"http_proxy": url.strip()}),
    "endpoint": lambda url: Call("batch", ["--input", "s3://b/x.csv"], {"AWS_ENDPOINT_URL": url, "AWS_REGION": "x"}),
}


def server(allowed: set[str]) -> type[http.server.BaseHTTPRequestHandler]:
    """A web server that serves ``x.csv`` in parts and ``w.csv`` whole, where one of the secrets is in the query."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path, _, query = self.path.partition("?")
            if path not in ("/x.csv", "/w.csv") or not any(secret in unquote(query) for secret in allowed):
                self.send_error(403)
                return
            body = ROWS.encode()
            asked = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", "") if path == "/x.csv" else "")
            begin = int(asked[1] or 0) if asked else 0
            end = min(int(asked[2] or len(body)), len(body) - 1) if asked else len(body) - 1
            self.send_response(206 if asked else 200)
            if asked:
                self.send_header("Content-Range", f"bytes {begin}-{end}/{len(body)}")
            self.send_header("Content-Length", str(end + 1 - begin))
            self.send_header("ETag", '"one"')
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body[begin : end + 1])

        do_HEAD = do_GET

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    return Handler


def cases(count: int, seed: int | str) -> Iterator[tuple[str, str, str]]:
    """Secret, form and place of so many cases: every form and every place, then any of them together."""
    random_ = random.Random(seed)
    forms, places = list(FORMS), list(PLACES)
    for k in range(count):
        secret = f"{random_.getrandbits(96):024x}"
        form = forms[k % len(forms)] if k < 2 * len(forms) else random_.choice(forms)
        yield secret, form, random_.choice(places) if k >= len(places) else places[k]


def run_case(call: Call, folder: Path, model: str) -> str:
    """Call a command in this process, in a folder of its own; return what it printed."""
    from flows.cli import run_command

    folder.mkdir(parents=True)
    (folder / "x.csv").write_text(ROWS)
    for name, text in call.files.items():
        (folder / name).write_text(text)
    printed, before, cwd = io.StringIO(), dict(os.environ), Path.cwd()
    try:
        os.environ.update(call.environment)
        os.chdir(folder)
        words = [model if word == "{model}" else word for word in call.words]
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            status = run_command(import_module(f"flows.{call.command}").main, words)
    finally:
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(before)
    for name in call.files:
        (folder / name).unlink()  # what the user has written himself
    return f"{printed.getvalue()}\nstatus {status}"


def everything(*roots: Path) -> dict[str, bytes]:
    """The contents of all files under some folders, and their names; compressed pages are searched as they are."""
    found = {}
    for root in roots:
        for path in root.rglob("*"):
            with contextlib.suppress(OSError):
                found[str(path)] = str(path).encode() + b"\n" + (path.read_bytes() if path.is_file() else b"")
    return found


def leaks(secrets: Mapping[str, str], texts: Mapping[str, bytes]) -> list[str]:
    """The secrets of which a half or more is found, each with the place where it was put and the text that has it."""
    halves = {secret[k : k + HALF].encode(): secret for secret in secrets for k in (0, HALF)}
    found: dict[str, str] = {}
    for name, text in texts.items():
        forms = [text, unquote(text.decode(errors="replace")).encode()] if b"%" in text else [text]
        for run in (run for form in forms for run in re.findall(rb"[0-9a-f]{%d,}" % HALF, form)):
            for k in range(len(run) - HALF + 1):
                if secret := halves.get(run[k : k + HALF]):
                    found.setdefault(secret, f"{secrets[secret]}: {name}")
    return list(found.values())


def whole_runs(folder: Path, host: str, secrets: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Commands that succeed, with a secret each."""
    quick = ["--t", "5", "--psi", "4", "--learner", "ogd", "--partitioner", "anne"]
    s = iter(secrets)
    one, two, three = (str(folder / name) for name in ("one", "two", "three"))
    yield "batch", ["--input", f"http://{host}/x.csv?sig={next(s)}", *quick, "--run-dir", one]
    yield "batch", ["--input", f"http://{host}/x.csv?sig={next(s)}", *quick, "--run-dir", one]  # a fresh signature
    several = f"http://{host}/x.csv?X-Amz-Signature={next(s)},http://{host}/w.csv?token={next(s)}"
    test = f"http://{host}/w.csv?sig={next(s)}"
    yield "batch", ["--input", several, "--test-input", test, *quick, "--quiet", "--run-dir", two]
    sets = folder / "sets.toml"
    sets.write_text(f'[dataset.mine]\ntrain = "http://{host}/x.csv?sig={next(s)}"\n')
    mine = ["--dataset-file", str(sets), "--dataset", "mine", "--data-dir", str(folder / "data")]
    yield "online", [*mine, *quick, "--initial", "50", "--run-dir", three]
    sets.unlink()  # what the user has written himself
    rows = f"simplecache::http://{host}/x.csv?sig={next(s)}"
    yield "score", ["--model", one, "--input", rows, "--format", "csv", "--label", "label"]


HALF = 12
"""Characters of half a secret: some forms part them there."""
WHOLE = 7
"""Secrets that the whole runs need."""


@contextlib.contextmanager
def one_cluster(handle: Any) -> Iterator[None]:
    """Have commands find a cluster in place of starting one, which takes longer than what is done on it here."""
    for name in ("batch", "score"):
        import_module(f"flows.runs.{name}")
    handle = dataclasses.replace(handle, _stack=contextlib.ExitStack())  # which a run stops before its end
    with (
        mock.patch("flows.runs.batch.connect", return_value=contextlib.nullcontext(handle)),
        mock.patch("flows.runs.score.connect", return_value=contextlib.nullcontext(handle)),
    ):
        yield


@contextlib.contextmanager
def diverted(path: Path) -> Iterator[Callable[[str], None]]:
    """Have all that this process and its children print go to a file; what is yielded prints where it went before."""
    kept = [os.dup(stream) for stream in (1, 2)]
    with path.open("wb") as file, os.fdopen(os.dup(1), "w") as real:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
        try:
            yield lambda line: print(line, file=real, flush=True)
        finally:
            for stream, old in zip((1, 2), kept, strict=True):
                os.dup2(old, stream)
                os.close(old)


def main(count: int = 200, seed: int = 0, *chosen: int) -> int:
    """Run all cases, or the chosen ones; return the number of secrets that were found."""
    random_ = random.Random(f"whole {seed}")
    total = 0
    top = tempfile.mkdtemp()
    # After the directories in it that Prefect and multiprocessing remove when Python ends.
    Finalize(None, shutil.rmtree, [top], {"ignore_errors": True}, exitpriority=-1000)
    with contextlib.ExitStack() as stack:
        os.environ.update(IKMAP_DATA_DIR=f"{top}/data", TMPDIR=f"{top}/tmp", PREFECT_HOME=f"{top}/prefect")
        os.environ.update(PREFECT_SERVER_ANALYTICS_ENABLED="false", DO_NOT_TRACK="1", NO_PROXY="localhost")
        Path(top, "tmp").mkdir()
        tempfile.tempdir = None
        say = stack.enter_context(diverted(Path(top, "printed")))
        handle = stack.enter_context(connect("local", workers=1))
        for way in ("alone", "prefect"):
            where = Path(top, way)
            where.mkdir()
            signed = [f"{random_.getrandbits(96):024x}" for _ in range(WHOLE)]
            host = stack.enter_context(serving(server({*signed, "free=1"}))).partition("://")[2]
            # Without these, programs of AWS ask a server that only its machines have.
            os.environ.update(AWS_ENDPOINT_URL=f"http://{host}", AWS_REGION="x", AWS_EC2_METADATA_DISABLED="true")
            os.environ.update(AWS_ACCESS_KEY_ID="x", AWS_SECRET_ACCESS_KEY="x")
            if way == "prefect":
                from prefect.settings import get_current_settings
                from prefect.testing.utilities import prefect_test_harness

                stack.enter_context(prefect_test_harness(server_startup_timeout=120))
                os.environ["PREFECT_API_URL"] = str(get_current_settings().api.url)
            secrets: dict[str, str] = {}
            printed: dict[str, bytes] = {}
            for k, (command, words) in enumerate(whole_runs(where, host, signed)):
                with one_cluster(handle):
                    text = run_case(Call(command, words), where / f"run{k}", "")
                printed[f"printed by whole run {k}"] = text.encode()
                say(f"{way}: {command}: {text.splitlines()[-1]}")
                if not text.endswith("status 0"):
                    say(text)
            secrets |= {secret: f"whole run, {k}" for k, secret in enumerate(signed)}
            for k, (secret, form, place) in enumerate(cases(count, f"{way} {seed}")):
                if chosen and k not in chosen:
                    continue
                secrets[secret] = f"{place}: {form}"
                call = PLACES[place](FORMS[form](secret, host))
                text = run_case(call, where / f"case{k}", str(where / "one"))
                printed[f"printed by case {k}"] = text.encode()
                if chosen:
                    say(f"{way}: case {k}, {place}: {form}: {text}")
            statuses = [text.rpartition(b" ")[2].decode() for name, text in printed.items() if "case" in name]
            found = leaks(secrets, everything(Path(top)) | printed)
            total += len(found)
            for line in found[:400]:
                say(line)
            ends = {status: statuses.count(status) for status in sorted(set(statuses))}
            say(f"{way}: {len(secrets)} secrets, cases by exit status {ends}; {len(found)} found")
    print(f"{total} found")
    return total


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])) > 0)
