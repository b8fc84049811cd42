"""What verbs for BundleDeployments share.

access       reading and changing them on a cluster
selection    which ones a command line names
waiting      --wait: progress, success, and why waiting ends early
unserved     those on which no controller acts
"""
