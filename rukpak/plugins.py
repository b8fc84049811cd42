"""All that a package of plug-ins may import: contracts, the values that they exchange, and what is hard to write well.

What is listed here stays as it is within a `PLUGIN_API`; the rest of `api` and `controller` may change at any time.
"""

from rukpak.api.errors import BundleError
from rukpak.api.plugins import (
    KIBIBYTE,
    MEBIBYTE,
    PLUGIN_API,
    Access,
    Capabilities,
    ContentTree,
    Credentials,
    Entry,
    EntryKind,
    Format,
    Hook,
    Limits,
    LocalContent,
    Means,
    Network,
    PlacesConfig,
    Prepared,
    PrepareRequest,
    PreparesContent,
    Processor,
    ProcessRequest,
    ProgramResult,
    ProgramVersion,
    Readable,
    ReadsPart,
    ReadsSecrets,
    Refusal,
    RegistryCredentials,
    Rendering,
    RenderRequest,
    Resolution,
    Room,
    RunsProgram,
    Source,
)
from rukpak.api.proxies import Proxies, Proxy
from rukpak.api.v1alpha2.conditions import Reason
from rukpak.controller.content.digests import digest_of, digest_of_json
from rukpak.controller.content.limits import name_key, quote
from rukpak.controller.content.tar import read_tar
from rukpak.controller.formats.manifests import Document, LargeTextError, TextBudget, read_documents
from rukpak.controller.formats.objects import collect_objects
from rukpak.controller.formats.programs import ProgramFinder, copy_program, program_memory, run_program
from rukpak.controller.sources.addresses import admit
from rukpak.controller.sources.hosts import Location, check_host
from rukpak.controller.sources.routes import Route, find_route

__all__ = [
    "KIBIBYTE",
    "MEBIBYTE",
    "PLUGIN_API",
    "Access",
    "BundleError",
    "Capabilities",
    "ContentTree",
    "Credentials",
    "Document",
    "Entry",
    "EntryKind",
    "Format",
    "Hook",
    "LargeTextError",
    "Limits",
    "LocalContent",
    "Location",
    "Means",
    "Network",
    "PlacesConfig",
    "PrepareRequest",
    "Prepared",
    "PreparesContent",
    "ProcessRequest",
    "Processor",
    "ProgramFinder",
    "ProgramResult",
    "ProgramVersion",
    "Proxies",
    "Proxy",
    "Readable",
    "ReadsPart",
    "ReadsSecrets",
    "Reason",
    "Refusal",
    "RegistryCredentials",
    "RenderRequest",
    "Rendering",
    "Resolution",
    "Room",
    "Route",
    "RunsProgram",
    "Source",
    "TextBudget",
    "admit",
    "check_host",
    "collect_objects",
    "copy_program",
    "digest_of",
    "digest_of_json",
    "find_route",
    "name_key",
    "program_memory",
    "quote",
    "read_documents",
    "read_tar",
    "run_program",
]
