"""From a spec to a revision: resolve, fetch, assemble, render. Needs no cluster: `rukpak render` runs this code.

In: a spec, its pins and the capabilities of the cluster. Out: a `Revision`. `sources` and `content` handle network and
files, `formats` interprets the content.

    builder       START HERE
    config_values what spec.configFrom makes of the config
    validation    refuses an invalid spec before anything is fetched
    request       the inputs of a revision, and the digests that identify them
    context       settings, and what the caller provides: credentials, memory, progress
    pins          resolved sources, and whether a pin still applies
    origins       where content came from, and who may share it
    fetching      from the sources to pins, and from these to stored content
    rendering     from a content tree to a revision
    revision      the rendered objects as a value and as bytes
    plugins       sources and formats by kind, from entry points
    programs      which programs formats run, for the log
    capabilities  what a cluster serves, as a file
    recorded_kinds  what it served when a revision was rendered, for groups that fail discovery later
"""
