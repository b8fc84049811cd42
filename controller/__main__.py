"""`python -m controller` is `rukpak run`, also with flags; `python -m controller VERB` is `rukpak VERB`."""

from __future__ import annotations

import sys

from controller.cli import main

words = sys.argv[1:]
sys.exit(main(words if words and not words[0].startswith("-") else ["run", *words]))
