"""Drift: whether an object is as we left it, and what has become of it (README.md, Drift). Pure, in reading order.

In: an object as it is, and as the revision has it. Out: whether these agree, and where not, which field and who holds
it. Left to others: the decision to repair (`plan`), and reading and sending (`object`).

    ledger          how each object was left, and when it may be repaired again: the memory of this process
    comparison      where no hash is known: does our managedFields entry cover each field, or do the values agree
    ignored_fields  which fields and objects are left to others
    explanation     the field that is not ours any more, and who holds it
"""
