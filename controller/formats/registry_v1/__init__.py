"""The format `registry-v1`: OLM bundles, rendered object for object as OLM v1 does (operator-controller).

Reading order: `registry_format` (the table of contents), `layout` and `bundle` (files to values), `service_version`
(what is used of a ClusterServiceVersion), `gates`, `configuration` and `install_modes` (what the spec may ask for),
`validations`, then the generators in their order: `access`, `definitions`, `kinds`, `workloads`, `webhooks`,
`services`, with `names` and `certificates` beneath them; `duplicates` has the last word.

`typed` reads and writes values as Go's typed structures do: upstream decodes what it finds into them and encodes it
again, and names and presence of fields depend on that.
"""
