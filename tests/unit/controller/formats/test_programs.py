from __future__ import annotations

from pathlib import Path

import pytest

from rukpak.api.errors import BundleError
from rukpak.api.plugins import Limits, Means
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.content.digests import digest_of
from rukpak.controller.formats.programs import copy_program, run_program

TEXT = b"#!/bin/sh\necho first\n"


def test_what_runs_is_what_was_compared_whatever_becomes_of_the_file(tmp_path: Path) -> None:
    program, scratch = tmp_path / "program", tmp_path / "scratch"
    scratch.mkdir()
    program.write_bytes(TEXT)
    means = Means(scratch=scratch)
    assert copy_program(program, scratch / "copy", means) == digest_of(TEXT)
    program.write_bytes(b"#!/bin/sh\necho second\n")
    assert run_program([str(scratch / "copy")], means, subject="s").output == b"first\n"


def test_a_copy_is_charged_to_the_share_of_the_disk(tmp_path: Path) -> None:
    charged: list[int] = []
    (tmp_path / "program").write_bytes(TEXT)
    copy_program(tmp_path / "program", tmp_path / "copy", Means(scratch=tmp_path, occupy=charged.append))
    assert sum(charged) == len(TEXT)


REFUSED = [
    ("one that is too large", TEXT, 4, 'program" exceeds the limit of 4 bytes for one file; install a smaller program'),
    ("one that is missing", None, 99, 'program" cannot be read: No such file or directory; correct its permissions'),
]


@pytest.mark.parametrize(("name", "text", "most", "expected"), REFUSED, ids=[name for name, *_ in REFUSED])
def test_a_program_is_refused(name: str, text: bytes | None, most: int, expected: str, tmp_path: Path) -> None:
    if text:
        (tmp_path / "program").write_bytes(text)
    with pytest.raises(BundleError) as raised:
        copy_program(tmp_path / "program", tmp_path / "copy", Means(limits=Limits(file_bytes=most)))
    assert (raised.value.reason, raised.value.message) == (Reason.NOT_SUPPORTED, f'"{tmp_path}/{expected}')
