"""Fair shares: of what is limited no tenant gets so much that nothing is left for the next one.

shares   START HERE: what a share is, and places that are taken in turns
places   places that threads wait for
memory   memory that is held before it is used
"""
