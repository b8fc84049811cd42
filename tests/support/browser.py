"""Chromium of this machine, driven by Playwright. Nothing is downloaded: without one, tests are skipped and say so."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
MISSING = "no Chromium on PATH; where there is root: apt-get install chromium-headless-shell"


def find_program() -> str | None:
    """Return the path of a Chromium on PATH."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


@contextmanager
def launch() -> Iterator[Browser]:
    """Provide a Chromium.

    Raises: pytest's Skipped if there is none.
    """
    program = find_program()
    if program is None:
        pytest.skip(MISSING)
    with launch_program(program) as browser:
        yield browser


@contextmanager
def launch_program(program: str) -> Iterator[Browser]:
    """Provide this Chromium."""
    # Its sandbox refuses to run as root, and what it opens here is our own page.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=arguments)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(browser: Browser, url: str, **options: Any) -> Iterator[Page]:
    """Provide a page in a browser profile of its own; it must not report an error, nor what its policy has blocked."""
    context = browser.new_context(**options)
    errors: list[str] = []
    page = context.new_page()
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if "Security Policy" in message.text else None)
    page.goto(url)
    page.wait_for_url(lambda now: now.startswith("http") and "token=" not in now)  # it leads to the page
    try:
        yield page
        assert errors == []
    finally:
        context.close()


@contextmanager
def serving_page(kubeconfig: Path, *flags: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run `rukpak ui` on a cluster, and provide its process and the address that it prints."""
    words = [sys.executable, "-m", "rukpak", "ui", "--no-browser", f"--kubeconfig={kubeconfig}", *flags]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.terminate()


def find_violations(page: Page) -> list[str]:
    """Return what axe-core objects to, by the rules of WCAG 2.2 AA and its own best practices."""
    found = Axe().run(page).response["violations"]
    return [f"{each['id']}: {node['target']}: {node['failureSummary']}" for each in found for node in each["nodes"]]
