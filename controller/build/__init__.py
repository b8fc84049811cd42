"""From a spec to a revision: resolve, fetch, assemble, render. No cluster takes part: `rukpak render` runs this code.

In: a spec, its pins and the capabilities of the cluster. Out: a `Revision`. Network and files are left to `sources` and
`content`, what content means to `formats`.

    builder       START HERE
    validation    refuses a spec before anything is fetched
    request       what a revision is made from, and the digests that name it
    pins          what sources were resolved to, and whether that still holds
    context       settings, and what the caller brings: credentials, memory, progress
    resolver      sources without a pin are asked
    fetcher       content that is not stored is fetched
    plugin_calls  what both have in common
    origins       who gave a content, and who shares it
    revision      the rendered objects as a value, and as bytes
    rendering     from a content tree to a revision
    child         a large rendering, in a process of its own
    plugins       sources and formats by kind, from entry points
    capabilities  what a cluster serves, as a file
"""
