"""A real Kubernetes control plane on this machine, without root rights and without a container runtime.

Reading order: `settings` (versions, addresses, cache) → `programs` (what there is) → `binaries` (how one is
obtained: `installed`, `downloads`, `builds`, kept in `cache`) → `processes` and `folders` (what runs, and where it is
noted) → `certificates`, `components` (command lines) → `cluster` → `nodes`, `registry`. `__main__` is the command
`hack/cluster`.

Nothing here is part of the program: `api` and `controller` are not imported.
"""
