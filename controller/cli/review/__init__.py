"""Verbs that show what a revision changes, may do and takes to install, before or after it is installed.

revisions    START HERE: the revision that a verb is about, from a file or the cluster
diff         `rukpak diff`
dry_run      its edge: what the API server would make of each object
overlay      the same, computed for users who may not ask the server
differences  the values that a comparison consists of, and the comparison of two revisions
cleaning     objects as people compare them: without noise, and with Secrets masked
unified      a comparison as text and as data
install      `rukpak install`
permissions  `rukpak permissions`
rights       `rukpak rights`
resources    the resource of a kind, also where no cluster serves it
"""
