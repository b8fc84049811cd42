"""Reads what a revision is built from, as far as it is in the cluster: as the account of the BundleDeployment, if any.

In: names in a spec. Out: values, or why they cannot be read. Not here: what they mean (`sources`, `build`), and when
they are read again (`source_access`, `observe.following.named`).

    credentials     reads the Secrets that sources name
    local_content   reads ConfigMaps that are content
    config_objects  reads what spec.configFrom refers to
"""
