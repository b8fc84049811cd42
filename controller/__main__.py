"""`python -m controller` is `rukpak run`; with a verb, `python -m controller VERB` is `rukpak VERB`."""

from __future__ import annotations

import sys

from controller.cli import VERBS, main

words = sys.argv[1:]
sys.exit(main(words if words[:1] and words[0] in VERBS else ["run", *words]))
