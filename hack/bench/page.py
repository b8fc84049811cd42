"""The page of `rukpak ui`: 2,000 BundleDeployments and one of 5,000 objects until they are seen, 500 changes a second.

`hack/bench/run` measures it with everything else; `python -m hack.bench.page` measures only this. It needs a Chromium
on PATH, and no cluster: an API server in memory keeps what is shown, and shares the processors with what is measured.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Page

from hack.bench.rows import Row, publish, publish_part, read_usage, tell
from tests.support.browser import MISSING, find_program, launch_program, serving_page
from tests.support.pages import CONFIG_MAPS, Shop, deployment, ready

MOST_SECONDS = 1.0
MOST_MEBIBYTES = 150
COUNT = 2000
OBJECTS = 5000
"""Of the BundleDeployment `shop`, beside those that it has in tests."""
RATE = 500
SECONDS = 10.0
STEPS = 50
"""Bursts in a second."""
PAINTED = """([selector, text]) => new Promise((resolve) => {
  const look = () => {
    const found = document.querySelector(selector)?.textContent.includes(text);
    return found ? resolve(performance.now()) : requestAnimationFrame(look);
  };
  look();
})"""
"""Resolves to the milliseconds since navigation at the first frame with an element that has a text."""
ROW = ("tbody tr", "")
VIEWS = {
    f"first objects of {OBJECTS:,} as a list": ("", "main summary", ""),
    f"all {OBJECTS:,} of them": ("", ".objects small", f"{OBJECTS + 17} objects"),
    f"first objects of {OBJECTS:,} as a graph": ("/graph", ".graph li li", ""),
    "all that a graph shows of them": ("/graph", ".graph", f"{OBJECTS - 280} more"),
}
"""By what is on the screen then: the end of the address, and what is looked for."""
OBSERVED = """() => {
  window.lags = [];
  const look = () => {
    for (const each of document.querySelectorAll("tbody .revision")) {
      if (each.textContent.startsWith("t") && each.textContent !== each.seen) {
        each.seen = each.textContent;
        window.lags.push(Date.now() - Number(each.textContent.slice(1)));
      }
    }
    requestAnimationFrame(look);
  };
  look();
}"""
"""Notes for each row that changes on the screen how many milliseconds ago it was changed."""


def main() -> int:
    """Print the figures, and return the exit status."""
    program = find_program()
    if program is None:
        raise SystemExit(f"hack.bench.page: {MISSING}")
    return publish(measure(program))


def run(output: Path | None, *, is_quick: bool = False) -> None:
    """Measure it, and publish the table, if there is a browser."""
    program = find_program()
    if program is None:
        print(f"without the page: {MISSING}", file=sys.stderr)
        return
    publish_part("page", tell(measure(program)), output, is_whole=not is_quick)


def measure(program: str) -> Iterator[Row]:
    """Yield the figures of the page in a browser."""
    shop = Shop()
    with shop.api, tempfile.TemporaryDirectory() as folder:
        for index in range(COUNT):
            shop.put(_name(index), deployment(**ready()))
        shop.fill()
        for index in range(OBJECTS):
            shop.put_object(CONFIG_MAPS, "ConfigMap", f"many-{index:04}", data={"color": "blue"})
        with (
            serving_page(Path(shop.api.kubeconfig(Path(folder) / "kubeconfig"))) as (process, url),
            launch_program(program) as browser,
        ):
            page = browser.new_page()
            page.goto(url)  # with the cookie and the parts of the page; the watch has its list
            page.locator("tbody tr").first.wait_for()
            yield from _time_paints(page, f"first row of {COUNT:,}", *ROW)
            for title, (end, *wanted) in VIEWS.items():
                page.evaluate("hash => { location.hash = hash }", f"#/bd/shop{end}")
                yield from _time_paints(page, title, *wanted)
            page.evaluate("location.hash = '#/'")
            page.locator("tbody tr").first.wait_for()
            before, spent = len(shop.api.received), read_usage(process.pid).cpu
            lags = _change(page, shop)
            usage = read_usage(process.pid)
            about = f"from a change to the screen at {RATE} changes a second"
            yield Row(title=f"{about}, s", value=statistics.median(lags), at_most=MOST_SECONDS)
            yield Row(title="the slowest of them, s", value=max(lags), at_most=MOST_SECONDS)
            yield Row(title="CPU of the server meanwhile, s", value=usage.cpu - spent, digits=1)
            yield Row(title="memory of the server, MiB", value=usage.resident, at_most=MOST_MEBIBYTES, digits=0)
            requests = len(shop.api.received) - before
            yield Row(title="requests to the API server meanwhile", value=requests, digits=0)


def _time_paints(page: Page, title: str, *wanted: str) -> Iterator[Row]:
    """Load the page again and again, and yield how long it takes until something is on the screen."""
    paints = []
    for _ in range(5):
        page.reload(wait_until="commit")
        paints.append(page.evaluate(PAINTED, wanted) / 1000)
    yield Row(title=f"{title} on the screen, s", value=statistics.median(paints), at_most=MOST_SECONDS)


def _change(page: Page, shop: Shop) -> list[float]:
    """Change rows evenly; those on the screen tell when they were changed."""
    page.evaluate(OBSERVED)
    begun, sent = time.monotonic(), 0
    while (elapsed := time.monotonic() - begun) < SECONDS:
        while sent < elapsed * RATE:
            sent += 1
            place = sent % 20 if sent % 5 == 0 else sent % COUNT  # each fifth one is on the screen
            told = {"revision": f"t{time.time() * 1000:.0f}", "objects": "6/6"}
            # Without a version, which would stand in place of the revision.
            shop.put(_name(place), deployment(**ready(display=told, sources=[], installedSources=[])))
        page.wait_for_timeout(1000 / STEPS)
    page.wait_for_timeout(1000)
    found: list[float] = page.evaluate("window.lags")
    return [each / 1000 for each in found]


def _name(index: int) -> str:
    return f"app-{index:04}"


if __name__ == "__main__":
    sys.exit(main())
