"""A real Kubernetes control plane on this machine, without root rights and without a container runtime.

Reading order: `programs` (which there are, versions, addresses, cache) → `binaries` (how to obtain them) → `processes`
(what is running, and where it is recorded) → `cluster` (a control plane, its components, and a registry beside it).

Nothing of the controller is imported here, and only the command line imports it. hack/control_plane adds what
development needs: builds of the programs, Prometheus, and the command `hack/cluster`.
"""
