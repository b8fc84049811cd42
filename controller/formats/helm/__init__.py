"""The format helm: a chart, rendered by the helm program to objects and hooks.

In: a content tree and `spec.config`. Out: a `Rendering`. `controller/apply` runs the hooks.

    format         START HERE: the steps in order
    configuration  `spec.config`
    chart          finds the chart and copies its files
    ignore         which packaged dependencies `.helmignore` names
    values         reads and writes values
    asked_groups   refuses charts that ask for API groups whose kinds are not known
    schemas        refuses references that helm would follow
    program        finds helm
    child          runs it, confined
    failures       its errors as messages
    lookups        finds templates that need what `lookup` finds
    redaction      removes values from them
    output         objects and hooks from its output
"""
