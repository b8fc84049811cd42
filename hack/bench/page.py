"""The page of `rukpak ui`: 2,000 BundleDeployments and one of 5,000 objects until they are seen, 500 changes a second.

`.venv/bin/python -m hack.bench.page` prints the figures. It needs a Chromium on PATH, and no cluster: an API server in
memory keeps what is shown, and shares the processors with what is measured.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Page

from hack.bench.figures import describe_machine
from tests.support.browser import find_program, launch_program, serving_page
from tests.support.pages import CONFIG_MAPS, Shop, deployment, ready

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
    "as many of them as a graph has": ("/graph", ".graph", f"{OBJECTS - 280} more"),
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


def main() -> None:
    """Print the figures."""
    program = find_program()
    if program is None:
        raise SystemExit("hack.bench.page: no Chromium on PATH")
    print(describe_machine())
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
            _print_paints(page, f"first row of {COUNT:,}", *ROW)
            for title, (end, *wanted) in VIEWS.items():
                page.evaluate("hash => { location.hash = hash }", f"#/bd/shop{end}")
                _print_paints(page, title, *wanted)
            page.evaluate("location.hash = '#/'")
            page.locator("tbody tr").first.wait_for()
            before, spent = len(shop.api.received), _processor_seconds(process.pid)
            lags = _change(page, shop)
            told = f"{statistics.median(lags):.2f}, at most {max(lags):.2f}"
            print(f"{RATE} changes a second, s from a change to the screen: {told}")
            print(f"CPU of the server for {SECONDS:g} s of that, s: {_processor_seconds(process.pid) - spent:.1f}")
            print(f"resident memory of the server, MiB: {_memory(process.pid):.0f}")
            print(f"requests to the API server meanwhile: {len(shop.api.received) - before}")


def _print_paints(page: Page, title: str, *wanted: str) -> None:
    """Load the page again and again, and print how long it takes until something is on the screen."""
    paints = []
    for _ in range(5):
        page.reload(wait_until="commit")
        paints.append(page.evaluate(PAINTED, wanted) / 1000)
    print(f"{title} on the screen, s: {statistics.median(paints):.2f}, at most {max(paints):.2f}", flush=True)


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


def _processor_seconds(pid: int) -> float:
    user, system = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _memory(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


if __name__ == "__main__":
    main()
