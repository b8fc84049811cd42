"""Verbs that show what a bundle may do, and what it takes to install it, before or after it is installed.

revisions    START HERE: the revision that a verb is about, from a file or the cluster
permissions  `rukpak permissions`
rights       `rukpak rights`
resources    the resource of a kind, also where no cluster serves it
"""
