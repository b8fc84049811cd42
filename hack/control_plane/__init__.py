"""Control planes for development, of the parts in controller/playground: named ones, and builds of their programs.

`builds` (from Go modules, where nothing can be downloaded), `prometheus`; `nodes` (real ones, on which pods run) with
`node.sh`, `relay`, `images`, and `packages`, which are installed for them; `__main__` is the command `hack/cluster`.
"""
