"""Scheduler and workers that show their pages to nobody who was not told where they are.

Every user of a machine reaches every port of it, and Dask's pages know no log-in. So all of them stand below a path
that nobody can guess, drawn anew by each process. Dask takes such a prefix but gives it away: it redirects from the
root to it. A gate therefore looks at the path first, and answers everything else with the same empty 404. Whoever may
speak to the scheduler, which takes a certificate, is told the paths. Figures for Prometheus have one of their own,
because Prometheus shows to its readers where it looks.

What draws the pages (Bokeh: most of a second of a core, in each process) is loaded when somebody first looks at one.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from hmac import compare_digest
from importlib import import_module
from typing import Any

from distributed import Nanny, Scheduler, Worker
from distributed.deploy.spec import SpecCluster
from distributed.http.utils import get_handlers
from tornado.httputil import HTTPMessageDelegate, HTTPServerRequest
from tornado.routing import Router
from tornado.web import Application, RequestHandler

from pipeline.urls import apart

PAGES, METRICS = "ikmap_pages", "ikmap_metrics"
"""Names under which a scheduler tells, of itself and of its workers, the paths of their pages and of their metrics."""
_BYTES = 16


class Gate(Router):
    """Lets requests through whose path begins with a secret one.

    Parameters
    ----------
    application : Application
        Answers those requests.
    pages : str
        First part of every path that is let through.
    metrics : str
        The one path that is let through beside those.
    draw : callable
        Called before the first of the pages is answered.
    """

    def __init__(self, application: Application, pages: str, metrics: str, draw: Callable[[], None]) -> None:
        self._application, self._pages, self._metrics = application, pages.encode(), metrics.encode()
        self._draw: Callable[[], None] | None = draw

    def find_handler(self, request: HTTPServerRequest, **kwargs: Any) -> HTTPMessageDelegate | None:
        """Called by Tornado for every request, those for a web socket included; None is a bare 404."""
        path = request.path.strip("/").encode()
        below = compare_digest(path.partition(b"/")[0], self._pages)
        if not below and not compare_digest(path, self._metrics):
            return None
        if below and self._draw is not None:
            draw, self._draw = self._draw, None
            draw()
        return self._application.find_handler(request, **kwargs)


class _Closed:
    """Base of the scheduler and the worker: draws the paths, and puts the gate before the pages."""

    pages: str
    metrics_path: str
    _figures: str
    _drawn_by: str

    def draw_paths(self) -> None:
        self.pages = secrets.token_hex(_BYTES)
        self.metrics_path = f"{secrets.token_hex(_BYTES)}/metrics"

    def paths(self) -> dict[str, str]:
        return {PAGES: f"/{self.pages}", METRICS: f"/{self.metrics_path}"}

    def start_http_server(self, *args: Any, **kwargs: Any) -> None:
        super().start_http_server(*args, **kwargs)  # type: ignore[misc]
        application = self.http_application  # type: ignore[attr-defined]
        prefix = self.metrics_path.partition("/")[0]
        application.add_handlers(r".*$", get_handlers(server=self, modules=[self._figures], prefix=prefix))
        # It listens already, but nothing is answered before this method is left.
        self.http_server.request_callback = Gate(  # type: ignore[attr-defined]
            application, self.pages, self.metrics_path, self._draw_pages
        )

    def _draw_pages(self) -> None:
        """Connect the pages at the drawn path; Dask calls it as the process starts."""
        pages = import_module(self._drawn_by)
        pages.connect(self.http_application, self.http_server, self, prefix=self.pages)  # type: ignore[attr-defined]


class ClosedScheduler(_Closed, Scheduler):
    """A scheduler whose pages nobody finds who was not told where they are."""

    _figures = "distributed.http.scheduler.prometheus"
    _drawn_by = "distributed.dashboard.scheduler"

    def __init__(self, **options: Any) -> None:
        self.draw_paths()
        super().__init__(http_prefix=self.pages, **{**options, "dashboard": False})

    def start_http_server(self, *args: Any, **kwargs: Any) -> None:
        super().start_http_server(*args, **kwargs)
        route = (rf"/{self.pages}/proxy/(\d+)/(.*?)/(.*)", _ToWorker, {"scheduler": self})
        self.http_application.add_handlers(r".*$", [route])

    def identity(self, n_workers: int = -1) -> dict[str, Any]:
        """Return the description that clients are told and that stands in a scheduler file."""
        return {**super().identity(n_workers), "type": Scheduler.__name__, **self.paths()}


class ClosedWorker(_Closed, Worker):
    """A worker whose pages nobody finds who was not told where they are; the scheduler is told."""

    _figures = "distributed.http.worker.prometheus"
    _drawn_by = "distributed.dashboard.worker"

    def __init__(
        self,
        *args: Any,
        startup_information: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self.draw_paths()
        pages = {name: lambda worker, name=name: worker.paths()[name] for name in (PAGES, METRICS)}
        super().__init__(
            *args,
            startup_information={**(startup_information or {}), **pages},
            http_prefix=self.pages,
            **{**options, "dashboard": False},
        )


class ClosedNanny(Nanny):
    """The keeper of a closed worker. It has no pages itself."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{**options, "worker_class": ClosedWorker})


class WithClosedScheduler(SpecCluster):
    """Base, before `distributed.LocalCluster` or one made of it, of a cluster that has a closed scheduler."""

    async def _start(self) -> None:
        self.scheduler_spec["cls"] = ClosedScheduler
        await super()._start()


class _ToWorker(RequestHandler):
    """The handler of the links from the pages of the scheduler to those of a worker."""

    def initialize(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def get(self, port: str, host: str, path: str) -> None:
        for worker in self._scheduler.workers.values():
            if host == worker.host and port == str(worker.services.get("dashboard")):
                self.redirect(f"http://{host}:{port}{worker.extra.get(PAGES, '')}/{path}")
                return
        self.send_error(404)


def link_to_pages(link: str | None, known: Mapping[str, Any]) -> str | None:
    """The address of a dashboard, with the path of its pages where a scheduler (``known``) tells one."""
    if link is None or PAGES not in known:
        return link
    parts = apart(link)
    return str(parts._replace(path=known[PAGES] + parts.path))
