"""The report as a browser shows it: headless Chromium on the file itself."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from pipeline.report import write_report
from tests.support import report_examples

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")
pytestmark = [
    pytest.mark.system,
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None or DRIVER is None, reason="chromium or chromedriver is not on the search path"),
]
ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
]
EXAMPLES = ("binary", "shared_psi", "tuned", "ten_classes", "many_classes", "stream", "traced", "raced", "unfinished")
Open = Callable[..., webdriver.Chrome]


@pytest.fixture(scope="module")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for argument in (*ARGUMENTS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(str(DRIVER)))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("reports")
    return {name: write_report(getattr(report_examples, name)(), folder / f"{name}.html") for name in EXAMPLES}


@pytest.fixture
def show(chrome: webdriver.Chrome) -> Open:
    """Opens a file at a width (CSS pixels), in a colour scheme, for the screen or for print."""

    def open_page(path: Path, width: int = 1200, scheme: str = "light", media: str = "") -> webdriver.Chrome:
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        for log in ("browser", "performance"):
            chrome.get_log(log)
        chrome.get(path.as_uri())
        return chrome

    return open_page


def boxes(chrome: webdriver.Chrome, selector: str) -> list[dict[str, float]]:
    """Bounding boxes of the elements, in CSS pixels."""
    return chrome.execute_script(
        "return [...document.querySelectorAll(arguments[0])].map(e => e.getBoundingClientRect().toJSON())",
        selector,
    )


def visible_text(chrome: webdriver.Chrome, selector: str = "body") -> str:
    return chrome.execute_script("return document.querySelector(arguments[0]).innerText", selector)


def is_shown(chrome: webdriver.Chrome, selector: str) -> bool:
    return chrome.execute_script("return document.querySelector(arguments[0]).checkVisibility()", selector)


@pytest.mark.parametrize("example", EXAMPLES)
def test_no_request_and_no_complaint(show: Open, pages: dict[str, Path], example: str) -> None:
    chrome = show(pages[example])
    assert [entry for entry in chrome.get_log("browser") if entry["level"] != "DEBUG"] == []
    messages = [json.loads(entry["message"])["message"] for entry in chrome.get_log("performance")]
    sent = [m["params"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    # The browser may still be asking for parts of its own first page, whose address begins so.
    asked = [of["request"]["url"] for of in sent if not of["documentURL"].startswith("chrome")]
    assert asked == [pages[example].as_uri()]


def test_content_security_policy_stops_what_does_not_belong(show: Open, pages: dict[str, Path]) -> None:
    chrome = show(pages["binary"])
    blocked = chrome.execute_async_script(
        """const done = arguments[0], seen = [];
        document.addEventListener("securitypolicyviolation", e => {
            seen.push(e.effectiveDirective);
            if (seen.length === 2) done(seen.sort());
        });
        const script = document.createElement("script");
        script.textContent = "document.title = 'taken'";
        document.body.append(script);
        const image = document.createElement("img");
        image.src = "http://127.0.0.1:9/x.png";
        document.body.append(image);"""
    )
    assert blocked == ["img-src", "script-src-elem"]
    assert chrome.title == "a9a: run report"


@pytest.mark.parametrize("width", [400, 700, 1200])
@pytest.mark.parametrize("example", EXAMPLES)
def test_nothing_sticks_out(show: Open, pages: dict[str, Path], example: str, width: int) -> None:
    chrome = show(pages[example], width)
    chrome.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert chrome.execute_script("return document.documentElement.scrollWidth") <= width
    # What is wider than its box must lie in a box that scrolls.
    loose = chrome.execute_script(
        """return [...document.querySelectorAll("table, pre, svg, h1, h2, h3, p, dd, dt, li")]
        .filter(e => !e.closest(".scroll") && e.getBoundingClientRect().width > 0)
        .filter(e => e.getBoundingClientRect().right > innerWidth)
        .map(e => e.outerHTML.slice(0, 80))"""
    )
    assert loose == []


@pytest.mark.parametrize("example", EXAMPLES)
def test_nothing_is_cut_off_on_paper(show: Open, pages: dict[str, Path], example: str) -> None:
    chrome = show(pages[example], 718, media="print")  # A4 less the browser's margins
    chrome.execute_script("window.dispatchEvent(new Event('beforeprint'))")
    tables = boxes(chrome, "table")
    assert len(tables) >= 5
    assert all(box["right"] <= 718 for box in tables)
    # Split by side, nothing runs into its neighbour.
    wide = chrome.execute_script(
        """return [...document.querySelectorAll(".scroll")].filter(e => e.scrollWidth > e.clientWidth)
        .map(e => e.ariaLabel)"""
    )
    assert wide == []


@pytest.mark.parametrize("width", [400, 1200])
def test_long_names_do_not_widen_the_page(show: Open, tmp_path: Path, width: int) -> None:
    metrics = report_examples.binary()
    long = "x" * 400
    metrics["run"] |= {"id": long, "command": long}
    metrics["data"]["name"] = long
    metrics["data"]["sources"][0]["url"] = f"https://{long}"
    metrics["data"]["classes"] = [f"{long}a", f"{long}b"]
    for learner in metrics["learners"].values():
        learner["labels"] = [f"{long}a", f"{long}b"]
    metrics["learners"] = {f"{name}{long}": learner for name, learner in metrics["learners"].items()}
    metrics["stages"][0]["name"] = long
    metrics["params"][long] = long
    chrome = show(write_report(metrics, tmp_path / "long.html"), width)
    assert chrome.execute_script("return document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_picture_has_a_size_and_a_name(show: Open, pages: dict[str, Path], example: str) -> None:
    chrome = show(pages[example])
    found = boxes(chrome, "svg")
    assert found
    assert all(box["width"] >= 20 and box["height"] >= 10 for box in found)
    names = chrome.execute_script(
        """return [...document.querySelectorAll("svg[role=img]")].map(
        e => [e.querySelector("title").textContent, e.querySelector("desc").textContent])"""
    )
    assert all(title and description for title, description in names)


def test_result_is_on_the_first_screen(show: Open, pages: dict[str, Path]) -> None:
    chrome = show(pages["binary"])
    assert visible_text(chrome, "h1") == "a9a"
    tiles = " ".join(visible_text(chrome, ".tiles").split())
    for words in (
        "accuracy of svm",
        "84.9%",
        "84.4–85.5%",
        "accuracy of ogd",
        "84.1%",
        "76.4%",
        "41.7 s",
        "1,171",
    ):
        assert words in tiles, words
    assert all(box["bottom"] < 450 for box in boxes(chrome, ".tile"))
    assert "svm is right on 84.9% of 16,281 test rows (the data set's own test set)" in visible_text(chrome)
    # The first learner is drawn right of the second, the baseline left of both, intervals around the dots.
    svm, ogd = boxes(chrome, "#accuracy circle.dot")
    for dot, whisker, baseline in zip(
        (svm, ogd), boxes(chrome, "#accuracy .whisker"), boxes(chrome, "#accuracy .baseline"), strict=True
    ):
        assert whisker["left"] < dot["left"] < dot["right"] < whisker["right"]
        assert baseline["right"] < whisker["left"]
    assert svm["left"] > ogd["left"]


@pytest.mark.parametrize("width", [400, 1200])
@pytest.mark.parametrize("example", ["binary", "many_classes"])
def test_bars_are_in_proportion(show: Open, pages: dict[str, Path], example: str, width: int) -> None:
    stages = getattr(report_examples, example)()["stages"]
    chrome = show(pages[example], width)
    bars = boxes(chrome, "#stages rect.bar")
    strip = boxes(chrome, "#stages li svg.strip")[0]
    longest = max(range(len(stages)), key=lambda i: stages[i]["seconds"])
    scale = bars[longest]["width"] / stages[longest]["seconds"]
    assert len(bars) == len(stages)
    for bar, stage in zip(bars, stages, strict=True):
        assert bar["width"] == pytest.approx(stage["seconds"] * scale, abs=0.5)
        assert bar["left"] == pytest.approx(strip["left"] + stage["started"] * scale, abs=0.5)
        assert strip["left"] <= bar["left"] <= bar["right"] <= strip["right"] + 0.5
    ticks = chrome.execute_script(
        """return [...document.querySelectorAll("#stages svg.axis text")].map((text, i) => [text.textContent,
        document.querySelectorAll("#stages svg.axis line")[i].getBoundingClientRect().left])"""
    )
    assert len(ticks) >= 3
    for label, left in ticks:
        number, unit = label.split()
        assert unit == "s"
        assert left == pytest.approx(strip["left"] + float(number) * scale, abs=1)
    shown = visible_text(chrome, "#stages")
    for words in ("cells", "rows/s", "MB/s", "peak"):
        assert words in shown


def test_unfinished_stage_has_no_bar(show: Open, pages: dict[str, Path]) -> None:
    chrome = show(pages["unfinished"])
    assert "This run has no result yet: finished so far are ingest, select, partition." in visible_text(chrome)
    assert len(boxes(chrome, "#stages rect.bar")) == 3
    assert "not finished" in visible_text(chrome, "#stages")


@pytest.mark.parametrize("width", [400, 1200])
@pytest.mark.parametrize(("example", "chosen"), [("binary", (1, 4)), ("shared_psi", (10, 10))])
def test_curves_lie_inside_their_axes(
    show: Open, pages: dict[str, Path], example: str, chosen: tuple[int, int], width: int
) -> None:
    chrome = show(pages[example], width)
    charts = chrome.execute_script(
        """return [...document.querySelectorAll("#curves svg.chart")].map(svg => {
        const box = e => e.getBoundingClientRect().toJSON();
        return {frame: box(svg.querySelector(".plot")), svg: box(svg),
            lines: [...svg.querySelectorAll("polyline")].map(line => {
                const to = line.getScreenCTM();
                return [...line.points].map(p => { const q = p.matrixTransform(to); return [q.x, q.y]; });
            }),
            texts: [...svg.querySelectorAll("text")].map(t => [t.textContent, box(t)])};
        })"""
    )
    assert [len(chart["lines"]) for chart in charts] == [2, 1]
    choice, learned = charts
    for chart in charts:
        frame = chart["frame"]
        for x, y in (point for line in chart["lines"] for point in line):
            assert frame["left"] - 1 <= x <= frame["right"] + 1
            assert frame["top"] - 1 <= y <= frame["bottom"] + 1
        for text, box in chart["texts"]:
            assert box["left"] >= chart["svg"]["left"] - 1, text
            assert box["right"] <= chart["svg"]["right"] + 1, text
            assert box["height"] >= 9, text  # can still be read when scaled down
        for i, (text, a) in enumerate(chart["texts"]):
            for other, b in chart["texts"][i + 1 :]:
                apart = a["right"] <= b["left"] or b["right"] <= a["left"]
                apart = apart or a["bottom"] <= b["top"] + 3 or b["bottom"] <= a["top"] + 3
                assert apart, (text, other)
    learning = learned["lines"][0]
    assert len(learning) == 60
    assert all(a[0] < b[0] and a[1] >= b[1] for a, b in pairwise(learning))
    # Powers of two are equally far apart; on each curve a ring is around the point of the chosen one, which it names.
    at = [x for x, _ in choice["lines"][0]]
    steps = [b - a for a, b in pairwise(at)]
    assert steps == pytest.approx([steps[0]] * len(steps), abs=0.1)
    rings, labels = boxes(chrome, "#curves .ring"), boxes(chrome, "#curves .mark")
    assert len(rings) == len(labels) == 2
    for line, i, ring, label in zip(choice["lines"], chosen, rings, labels, strict=True):
        x, y = line[i]
        assert (ring["left"] + ring["right"]) / 2 == pytest.approx(x, abs=0.5)
        assert (ring["top"] + ring["bottom"]) / 2 == pytest.approx(y, abs=0.5)
        # Near its ring; the other's label may be in between.
        assert label["left"] - 60 < x < label["right"] + 60
        assert label["top"] - 60 < y < label["bottom"] + 60
    # In the same place, one goes around the other.
    assert (rings[1]["width"] > rings[0]["width"]) == (chosen[0] == chosen[1])
    psi = getattr(report_examples, example)()["selection"]["chosen"]
    texts = [text for text, _ in choice["texts"]]
    assert texts[-2:] == [f"svm: {psi['svm']}", f"ogd: {psi['ogd']}"]
    fills = "return [...document.querySelectorAll('#curves .ring')].map(e => getComputedStyle(e).fill)"
    assert chrome.execute_script(fills) == ["none", "none"]


@pytest.mark.parametrize("width", [360, 1200])
def test_names_of_values_do_not_run_into_each_other(show: Open, pages: dict[str, Path], width: int) -> None:
    """Those of gamma and lambda are long, and lambdas are not equally far apart."""
    chrome = show(pages["tuned"], width)
    axes = chrome.execute_script(
        """return [...document.querySelectorAll("#curves svg.chart")].map(svg => [...svg.querySelectorAll("text")]
        .filter(e => e.getAttribute("text-anchor") == "middle" && !e.className.baseVal)
        .map(e => e.getBoundingClientRect().toJSON()))"""
    )
    assert len(axes) == 4
    for texts in axes:
        assert len(texts) >= 3
        assert all(a["right"] < b["left"] for a, b in pairwise(texts))


def test_confusion_table_is_shaded_by_share(show: Open, pages: dict[str, Path]) -> None:
    chrome = show(pages["ten_classes"])
    matrix = report_examples.ten_classes()["learners"]["svm"]["confusion"]
    cells = chrome.execute_script(
        """return [...document.querySelectorAll(".matrix tbody tr")].map(row =>
        [...row.querySelectorAll("td:not(.sum)")].map(td =>
            [Number(td.innerText), td.className, getComputedStyle(td).backgroundColor]))"""
    )
    assert [[cell[0] for cell in row] for row in cells] == matrix
    clear = "rgba(0, 0, 0, 0)"
    for i, row in enumerate(cells):
        for j, (n, kind, colour) in enumerate(row):
            assert ("hit" in kind) == (i == j)
            alpha = 0.0 if colour == clear else float(colour.rstrip(")").split(",")[-1])
            assert (alpha == 0) == (n == 0)
            assert i == j or alpha < 0.5


def test_heat_picture_of_many_classes(show: Open, pages: dict[str, Path]) -> None:
    chrome = show(pages["many_classes"])
    (frame,) = boxes(chrome, "svg.heat .plot")
    assert frame["width"] > 300
    assert frame["width"] == pytest.approx(frame["height"], abs=1)
    for box in boxes(chrome, "svg.heat g path"):
        assert frame["left"] - 1 <= box["left"] <= box["right"] <= frame["right"] + 1
        assert frame["top"] - 1 <= box["top"] <= box["bottom"] <= frame["bottom"] + 1
    matrix = report_examples.many_classes()["learners"]["svm"]["confusion"]
    worst = max(n for i, row in enumerate(matrix) for j, n in enumerate(row) if i != j)
    rows = chrome.execute_script(
        """return [...document.querySelectorAll("#errors .pair tbody tr")].map(row =>
        [...row.cells].map(cell => cell.innerText))"""
    )
    assert len(rows) == 15
    assert int(rows[0][2]) == worst
    assert all(matrix[int(a) - 1][int(b) - 1] == int(n) for a, b, n, _ in rows)
    # The long table is folded away until asked for.
    assert not is_shown(chrome, "#errors details table")
    chrome.execute_script("document.querySelector('#errors summary').click()")
    assert is_shown(chrome, "#errors details table")
    assert len(boxes(chrome, "#errors details tbody tr")) == 105
    assert boxes(chrome, "#errors details .scroll")[0]["height"] < 600


CONTRASTS = """
const parse = c => { const v = c.match(/[\\d.]+/g).map(Number); return v.length < 4 ? [...v, 1] : v; };
const linear = v => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
const luminance = ([r, g, b]) => .2126 * linear(r) + .7152 * linear(g) + .0722 * linear(b);
const ground = e => {
    const c = e ? parse(getComputedStyle(e).backgroundColor) : [255, 255, 255, 1];
    if (c[3] === 1) return c;
    const below = ground(e.parentElement);
    return [0, 1, 2].map(i => c[3] * c[i] + (1 - c[3]) * below[i]).concat(1);
};
const has_text = e => [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
return [...document.querySelectorAll("body *")]
    .filter(e => has_text(e) && e.checkVisibility() && !e.closest("script, title, desc"))
    .map(e => {
        const style = getComputedStyle(e);
        const a = luminance(parse(e instanceof SVGElement ? style.fill : style.color));
        const b = luminance(ground(e));
        return [(Math.max(a, b) + .05) / (Math.min(a, b) + .05), e.outerHTML.slice(0, 90)];
    });
"""


@pytest.mark.parametrize("media", ["screen", "print"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("example", ["binary", "ten_classes"])
def test_text_stands_out(show: Open, pages: dict[str, Path], example: str, scheme: str, media: str) -> None:
    """Contrast of all text is at least 4.5 (WCAG 2.2, 1.4.3), in both schemes and on paper."""
    chrome = show(pages[example], scheme=scheme, media=media)
    ratios: list[Any] = chrome.execute_script(CONTRASTS)
    assert len(ratios) > 100
    assert [entry for entry in ratios if entry[0] < 4.5] == []
    dark = chrome.execute_script("return getComputedStyle(document.body).backgroundColor") == "rgb(17, 20, 23)"
    assert dark == (scheme == "dark" and media == "screen")


def test_copy_button_and_paper(show: Open, pages: dict[str, Path]) -> None:
    chrome = show(pages["many_classes"])
    chrome.execute_script(
        """Object.defineProperty(navigator, "clipboard",
        {value: {writeText: text => { window.copied = text; return Promise.resolve(); }}})"""
    )
    button, *_ = chrome.find_elements("css selector", "button")
    button.click()
    command = report_examples.many_classes()["run"]["command"]
    assert chrome.execute_script("return window.copied") == command
    assert button.text == "Copied"
    folded = ("#errors details table", "#stages details table", "#details details .learners", "#reproduce details pre")
    assert not any(is_shown(chrome, block) for block in folded)
    chrome.execute_script("window.dispatchEvent(new Event('beforeprint'))")
    assert all(is_shown(chrome, block) for block in folded)
    # What was opened for the paper is folded again, and nothing else is.
    chrome.execute_script("window.dispatchEvent(new Event('afterprint'))")
    assert not any(is_shown(chrome, block) for block in folded)
    chrome.execute_script("document.querySelector('#errors summary').click()")
    for event in ("beforeprint", "afterprint"):
        chrome.execute_script(f"window.dispatchEvent(new Event('{event}'))")
    assert [is_shown(chrome, block) for block in folded] == [True, False, False, False]


def test_hostile_data_set_name_is_shown_as_text(show: Open, tmp_path: Path) -> None:
    metrics = report_examples.binary()
    name = "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"
    metrics["data"]["name"] = name
    chrome = show(write_report(metrics, tmp_path / "hostile.html"))
    assert visible_text(chrome, "h1").startswith("<script>document.title='taken'</script>")
    assert "taken" not in chrome.title.replace("document.title='taken'", "")
    assert chrome.execute_script("return document.images.length") == 0
