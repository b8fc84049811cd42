"""`python -m rukpak` is `rukpak run`, also with flags; `python -m rukpak VERB` is `rukpak VERB`."""

from __future__ import annotations

import sys

from rukpak.controller.cli import main

words = sys.argv[1:]
sys.exit(main(words if words and not words[0].startswith("-") else ["run", *words]))
