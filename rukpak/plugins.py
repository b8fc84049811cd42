"""All that a package of plug-ins may import: contracts, the values that they exchange, and what is hard to write well.

What is listed here stays as it is within a `PLUGIN_API`; the rest of `api` and `controller` may change at any time.
"""

from api.errors import BundleError
from api.plugins import (
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
from api.proxies import Proxies, Proxy
from api.v1alpha2.conditions import Reason
from controller.content.digests import digest_of, digest_of_json
from controller.content.limits import name_key, quote
from controller.content.tar import read_tar
from controller.formats.manifests import Document, LargeTextError, TextBudget, read_documents
from controller.formats.objects import collect_objects
from controller.formats.programs import ProgramFinder, copy_program, program_memory, run_program
from controller.sources.addresses import admit
from controller.sources.hosts import Location, check_host
from controller.sources.routes import Route, find_route

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
