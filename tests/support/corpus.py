"""Inputs that are kept for fuzzing, and how more are made of them.

`tests/data/fuzz/` holds a folder of files, or a JSON list of texts, for each target. What a fuzzer finds is added
there, and is tried first from then on.
"""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import strategies as st

CORPUS = Path(__file__).parents[1] / "data" / "fuzz"


def kept_files(target: str) -> dict[str, bytes]:
    """Return the kept inputs of a target by file name."""
    return {path.name: path.read_bytes() for path in sorted((CORPUS / target).iterdir())}


def kept_texts(target: str) -> list[str]:
    """Return the kept texts of a target."""
    texts: list[str] = json.loads((CORPUS / f"{target}.json").read_text())
    return texts


@st.composite
def damaged(draw: st.DrawFn, target: str) -> bytes:
    """Draw a kept file with some bytes replaced, taken out, or taken from another one."""
    files = list(kept_files(target).values())
    data, other = bytearray(draw(st.sampled_from(files))), draw(st.sampled_from(files))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        end = start + draw(st.sampled_from([0, 1, 2, 4, 8, 64, 512]))
        piece = draw(st.integers(0, len(other)))
        data[start:end] = draw(st.binary(max_size=8) | st.just(other[piece : piece + 512]))
    return bytes(data)


@st.composite
def garbled(draw: st.DrawFn, target: str) -> str:
    """Draw a kept text with some of it replaced, or two of them joined."""
    texts = kept_texts(target)
    text, other = draw(st.sampled_from(texts)), draw(st.sampled_from(texts))
    start, end = sorted((draw(st.integers(0, len(text))), draw(st.integers(0, len(text)))))
    return text[:start] + draw(st.text(max_size=4) | st.sampled_from([other, *'/:@.-"\\,= %\x00'])) + text[end:]
