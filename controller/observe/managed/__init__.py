"""Managed objects: each kind that a BundleDeployment requires, watched once, and its objects by owner.

In: the required kinds, events of the watches, and replies to our own applies. Out: records by owner, and calls to the
listener. The rest of the controller uses `controller.observe.watches` only, and through it `served_kinds`.

    kinds           START HERE: which kinds are watched, and when one is listed again
    objects         handles events and replies about objects
    registry        the state of both, under one lock
    kind_watch      the watch of one kind, and its successor
    required_kinds  which BundleDeployment requires which kinds
    owned_objects   the index of objects by owner
    served_kinds    what the cluster serves, and at which version to read a kind
    projection      from an object to its record, with its health
"""
