"""Confined child processes and supervised threads.

In: a command, its limits and the files that it needs. Out: a process that the kernel confines. Which program it is, and
what its output means, is left to `sources`, `formats` and `building`.

    programs      START HERE: limits, accessible files, and no more network than needed; watched and killed as one
    kernel        the interfaces of the kernel for that
    supervision   threads that are restarted after a bug
    memory_limit  how much memory this process may use
"""
