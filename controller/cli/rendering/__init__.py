"""Verbs that need no controller: what a bundle would install.

render        the verb
content       where SOURCE is: a directory, a file, stdin, a registry, a URL
manifest      a BundleDeployment in a file
stored        a revision that was applied
consent       whether its Secrets may be used
capabilities  what a cluster serves
"""
