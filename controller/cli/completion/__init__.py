"""Completion of command lines, for shells and, as its plug-ins are completed, for kubectl.

candidates  START HERE: what may come next on a command line; pure
scripts     what a shell loads: `rukpak completion SHELL`
command     the verb, and the answers to shells and to kubectl
"""
