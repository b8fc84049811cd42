"""The format helm: a chart, rendered by the helm program to objects and hooks.

In: a content tree and `spec.config`. Out: a `Rendering`. `controller/apply` runs the hooks.

    format    START HERE: the steps in order, and which helm runs; objects and hooks in Helm's output, and the API
              groups that a chart asks for
    values    `spec.config`, and values as Helm reads them
    chart     finds the chart and copies its files
    lookups   answers to `lookup` in place of a cluster
    failures  its errors as messages without values, and what is refused
"""
