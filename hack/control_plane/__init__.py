"""A real Kubernetes control plane on this machine, without root rights and without a container runtime.

Reading order: `settings` (versions, addresses, cache) → `programs` (which there are) → `binaries` (how to obtain them:
`installed`, `downloads`, `builds`, stored in `cache`) → `processes` and `folders` (what is running, and where it is
recorded) → `certificates`, `components` (command lines) → `cluster` → `nodes`, `registry`. `__main__` is the command
`hack/cluster`.

Nothing here is part of the program: `api` and `controller` are not imported.
"""
