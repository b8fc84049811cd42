"""Drift: whether an object is as the last apply left it, and what has changed (README.md, Drift). Pure.

In: an object as it is, and as the revision has it. Out: whether they agree; if not, which field differs and which
manager owns it. Not here: the decision to repair (`plan`), reading and sending (`object`). In reading order:

    ledger          how the last apply left each object, and when it may be repaired again
    managed_state   one digest for the state in which all objects were left
    comparison      without a known hash: whether our managedFields entry covers each field, or the values agree
    ignored_fields  which fields and objects are not repaired
    explanation     the field that drifted, and its manager
"""
