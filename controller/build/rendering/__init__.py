"""From a content tree to a revision. `formats` and `processors` have the kinds themselves.

render        START HERE: a format renders objects, processors change them
processing    runs the processors
child         renders large bundles in a separate process
"""
