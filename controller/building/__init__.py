"""From a spec to a revision: resolve, fetch, assemble, render. Needs no cluster: `rukpak render` runs this code.

In: a spec, its pins and the capabilities of the cluster. Out: a `Revision`. `sources` and `content` handle network and
files, `formats` interprets the content.

    builder        START HERE
    request        the inputs of a revision, what the builder may use, and what is wrong with a spec; its pins: resolved
                   sources, whether a pin still applies, and who may share what it leads to
    fetching       from the sources to pins, and from these to stored content
    rendering      from a content tree to a revision, here or in another process
    answers        what a bundle looks up while it is rendered
    revision       the rendered objects as a value and as bytes
    config_values  what spec.configFrom makes of the config, the Secrets of processors, and texts of Secrets where
                   others would read them
    entry_points   sources, formats and processors by kind, from entry points
    guarding       the calls of those that other packages have brought
    capabilities   what a cluster serves, as a file, and what a revision records of it
"""
