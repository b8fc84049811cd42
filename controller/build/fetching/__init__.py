"""From the sources of a spec to pins, and from these to content in the store. `sources` has the kinds themselves.

resolver      START HERE: resolves sources without a pin
fetcher       fetches content that is not stored
plugin_calls  used by both
"""
