"""How cost grows with the number of BundleDeployments, objects, kinds and tenants; as a table and a picture.

`hack/bench/run` measures it. BundleDeployments are copies of one that is installed (crowd.py): what is measured is the
start of a controller that finds all of them. The others are installed. A bare client reads, or sends, the same objects.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log10
from pathlib import Path

from hack.bench import crowd, figures, raw
from hack.bench.scenarios import install
from hack.bench.testbed import Testbed, make_testbed
from hack.bench.workloads import Bundle, Manifest, make_account, make_bundle, make_bundles, make_kinds

SIZES = (10, 100, 1_000, 10_000)
QUICK_SIZES = (10, 100)
MEASURES = {"cpu": "CPU, s", "requests": "requests", "memory": "memory, MiB"}
SERIES = {
    "bundles": "start with so many BundleDeployments",
    "objects": "install so many objects in one",
    "kinds": "install so many CRDs with an object of each in one",
    "tenants": "install 5 objects for each of so many accounts",
}
_LARGEST = {"kinds": 100, "tenants": 1_000}
"""A control plane of this machine has no more."""
NAMES = tuple(f"growth-{theme}.svg" for theme in ("light", "dark"))


_PICTURE = f"""<picture>
  <source media="(prefers-color-scheme: dark)" srcset="{NAMES[1]}">
  <img src="{NAMES[0]}" alt="CPU, requests and memory by the number of BundleDeployments, objects, kinds and tenants">
</picture>"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """What one size costs."""

    series: str
    size: int
    cpu: float
    requests: float
    memory: float
    """The most, in MiB."""
    bare: float
    """CPU of a bare client, in seconds."""


def run(output: Path | None, *, is_quick: bool = False) -> None:
    """Measure all sizes, or the smallest; publish the table, and draw the pictures."""
    points = list(measure(QUICK_SIZES if is_quick else SIZES))
    table = figures.one_run(f"{_PICTURE}\n\n{as_markdown(points)}")
    values = {f"{each.series}.{each.size}.{name}": _shown(each, name) for each in points for name in MEASURES}
    figures.publish("growth", table, values, output, is_whole=not is_quick)
    if output or not is_quick:
        for name, picture in zip(NAMES, (draw(points, is_dark=False), draw(points, is_dark=True)), strict=True):
            ((output or figures.HERE) / name).write_text(picture, encoding="utf-8")


def measure(sizes: Sequence[int]) -> Iterator[Point]:
    """Yield what each size costs; each has a control plane of its own."""
    for size in sizes:
        with make_testbed() as testbed:
            gathered = crowd.gather(testbed, size, 0)
            since = testbed.position()
            try:
                crowd.start(gathered)
                yield Point(
                    series="bundles",
                    size=size,
                    cpu=testbed.usage().cpu,
                    requests=testbed.requests(since).total,
                    memory=testbed.peak(),
                    bare=gathered.bare.cpu,
                )
            finally:
                testbed.stop_controller()
    for series, make in _INSTALLED.items():
        for size in (size for size in sizes if size <= _LARGEST.get(series, size)):
            with make_testbed() as testbed:
                bundles = make("growth", size)
                deployments = testbed.push(bundles)
                if series == "tenants":
                    _give_accounts(testbed, bundles, deployments)
                with testbed.running_controller():
                    sample = install(testbed, deployments)
                    yield Point(
                        series=series,
                        size=size,
                        cpu=sample["install_cpu"].ours,
                        requests=sample["install_requests"].ours,
                        memory=testbed.peak(),
                        bare=raw.install(testbed.api, make("bare", size)).cpu,
                    )


def _give_accounts(testbed: Testbed, bundles: Sequence[Bundle], deployments: Sequence[Manifest]) -> None:
    """Create an account for each bundle, with which its BundleDeployment is installed."""
    accounts = [each for bundle in bundles for each in make_account(bundle.name)]
    testbed.cluster.kubectl(
        "create", "-f", "-", input=json.dumps({"kind": "List", "apiVersion": "v1", "items": accounts})
    )
    for each in deployments:
        each["spec"]["serviceAccountName"] = "installer"


_INSTALLED: Mapping[str, Callable[[str, int], list[Bundle]]] = {
    "objects": lambda name, size: [make_bundle(name, size)],
    "kinds": lambda name, size: [make_kinds(name, size)],
    "tenants": make_bundles,
}
"""The bundles of a series, by their name and number."""


def as_markdown(points: Sequence[Point]) -> str:
    """Return the table: a row for each size."""
    heads = {**MEASURES, "bare": "CPU of a bare client, s"}
    lines = [["", "number", *heads.values(), "times"], ["---", "---:", *["---:"] * len(heads), "---:"]]
    lines += [
        [
            SERIES[each.series],
            f"{each.size:,}",
            *(_shown(each, name) for name in heads),
            figures.factor_of(each.cpu, each.bare),
        ]
        for each in points
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _shown(point: Point, name: str) -> str:
    value: float = getattr(point, name)
    return f"{value:,.2f}" if name in {"cpu", "bare"} else f"{value:,.0f}"


# the picture: one frame for each measure, both axes logarithmic, so that what is proportional is a line of one slope

_WIDTH, _HEIGHT, _LEFT, _TOP, _GAP = 200, 160, 50, 40, 60
_INK: Mapping[bool, Mapping[str, str]] = {
    False: {
        "text": "#1f2328",
        "grid": "#d1d9e0",
        "bundles": "#0969da",
        "objects": "#bc4c00",
        "kinds": "#1a7f37",
        "tenants": "#8250df",
    },
    True: {
        "text": "#f0f6fc",
        "grid": "#3d444d",
        "bundles": "#4493f8",
        "objects": "#db6d28",
        "kinds": "#3fb950",
        "tenants": "#ab7df8",
    },
}


def draw(points: Sequence[Point], *, is_dark: bool) -> str:
    """Return the picture as SVG."""
    ink = _INK[is_dark]
    width, height = len(MEASURES) * (_WIDTH + _GAP) + _LEFT, _TOP + _HEIGHT + 80
    font = f'font-family="sans-serif" font-size="12" fill="{ink["text"]}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" {font}>',
        "<title>How cost grows with BundleDeployments, objects, kinds and tenants</title>",
    ]
    for number, (name, title) in enumerate(MEASURES.items()):
        parts += _draw_frame(points, name, title, _LEFT + number * (_WIDTH + _GAP), ink)
    for number, (series, text) in enumerate(SERIES.items()):
        x, y = _LEFT + number % 2 * 340, height - 42 + number // 2 * 20
        parts.append(f'<rect x="{x}" y="{y}" width="12" height="12" fill="{ink[series]}"/>')
        parts.append(f'<text x="{x + 18}" y="{y + 10}">{text}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _draw_frame(points: Sequence[Point], name: str, title: str, left: int, ink: Mapping[str, str]) -> Iterator[str]:
    values = [max(getattr(each, name), 0.01) for each in points]
    low, high = int(log10(min(values)) // 1), int(-(-log10(max(values)) // 1))
    sizes = [log10(each.size) for each in points]
    most, least = max(sizes), min(sizes)

    def _x(size: float) -> float:
        return left + _WIDTH * (log10(size) - least) / ((most - least) or 1)

    def _y(value: float) -> float:
        return _TOP + _HEIGHT * (1 - (log10(max(value, 0.01)) - low) / ((high - low) or 1))

    yield f'<text x="{left}" y="{_TOP - 14}" font-weight="bold">{title}</text>'
    for power in range(low, high + 1):
        y = _y(10.0**power)
        yield f'<path d="M{left} {y:.1f}h{_WIDTH}" stroke="{ink["grid"]}"/>'
        yield f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{10.0**power:,g}</text>'
    for size in sorted({each.size for each in points}):
        yield f'<text x="{_x(size):.1f}" y="{_TOP + _HEIGHT + 18}" text-anchor="middle">{size:,}</text>'
    for series in SERIES:
        places = [(_x(each.size), _y(getattr(each, name))) for each in points if each.series == series]
        if places:
            path = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
            yield f'<path d="M{path}" fill="none" stroke="{ink[series]}" stroke-width="2"/>'
        yield from (f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{ink[series]}"/>' for x, y in places)
