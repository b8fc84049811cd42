"""Fair shares of limited resources: no tenant takes so much that nothing is left for the next one.

shares     START HERE: what a share is, and items that take turns
admission  threads and passes that wait for memory or places
"""
