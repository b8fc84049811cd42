"""The programs that the installed formats run, such as helm."""

from __future__ import annotations

from api.errors import BundleError
from api.plugins import Means, ProgramVersion, RunsProgram
from controller.build.plugins import installed_formats


def find_programs(means: Means) -> dict[str, ProgramVersion | BundleError]:
    """Return by format the program that it runs, or why there is none; formats that run no program are left out.

    Args:
        means: of a rendering, with a scratch folder.
    """
    formats = {name: plugin for name, plugin in installed_formats().items() if isinstance(plugin, RunsProgram)}
    return {name: _find(plugin, means) for name, plugin in formats.items()}


def _find(plugin: RunsProgram, means: Means) -> ProgramVersion | BundleError:
    try:
        return plugin.find_program(means)
    except BundleError as error:
        return error
