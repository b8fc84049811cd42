"""Threads and child processes: what may not end, and what a program that is started may use and reach.

In: a command, its limits and the files that it needs. Out: the command, confined by the kernel. Which program that is,
and what its output means, is left to `sources`, `formats` and `build`.

    confinement   START HERE: limits, a view of the files, and no more network than needed
    group         a program with all that it starts: watched, and ended as one
    landlock, seccomp, system_calls  how the kernel is told
    supervision   threads that are begun again when a bug has ended them
    memory_limit  how much memory this process may use
"""
