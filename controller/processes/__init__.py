"""Confined child processes and supervised threads.

In: a command, its limits and the files that it needs. Out: a process that the kernel confines. Which program it is, and
what its output means, is left to `sources`, `formats` and `build`.

    confinement   START HERE: limits, accessible files, and no more network than needed
    group         a program and its children, watched and killed as one
    landlock, seccomp, system_calls  the interfaces of the kernel
    supervision   threads that are restarted after a bug
    memory_limit  how much memory this process may use
"""
