"""From a spec to a revision: resolve, fetch, assemble, render. No cluster takes part: `rukpak render` runs this code.

In: a spec, its pins and the capabilities of the cluster. Out: a `Revision`. Network and files are left to `sources` and
`content`, what content means to `formats`.

    builder       START HERE
    revision      the rendered objects as a value, and as bytes
    origins       who gave a content, and who shares it
    rendering     from a content tree to a revision
    child         a large rendering, in a process of its own
    plugins       sources and formats by kind, from entry points
    capabilities  what a cluster serves, as a file
"""
