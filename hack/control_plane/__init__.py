"""A real Kubernetes control plane on this machine, without root rights and without a container runtime.

Reading order: `settings` (versions, addresses, cache) → `programs` (which there are) → `binaries` (how to obtain them)
→ `builds` (from Go modules) → `processes` (what is running, and where it is recorded) → `components` (command lines and
their files) → `cluster` → `servers` (a registry, Prometheus). `__main__` is the command `hack/cluster`.

Nothing here is part of the program: `api` and `controller` are not imported.
"""
