"""Managed objects: every kind that a BundleDeployment requires, watched once, and its objects by owner.

In: which kinds are required, events of the watches, and what replies to our own applies said. Out: records by owner,
and calls to the listener. The rest of the controller talks to `controller.observe.watches` alone.

    kinds           START HERE: which kinds are watched, and when one is listed again
    objects         what an event or a reply says of an object, and who is told
    registry        the state of both, under one lock: decided there, acted on here
    kind_watch      the watch of one kind, and its successor
    required_kinds  which BundleDeployment requires which kinds
    owned_objects   the index of objects by owner
    served_kinds    what the cluster serves, and where a kind is best read
    projection      from an object to its record, with its health
"""
