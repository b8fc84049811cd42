"""What a format rendered becomes what server-side apply takes, before its digest is taken. Pure (README.md).

In: objects as a format rendered them, and the scope of their kinds. Out: the same objects, or BundleError
(InvalidBundle). Left to others: owner label, annotations and references, which `controller/apply` adds.

    applicable      START HERE: the steps in order, and the digest of the result
    invalid_fields  what is refused, since the API server would say why in a riddle
    corrections     what is changed so that an apply does what the author meant
    nulls           which nulls are left out
    pods            where kinds have their pod templates and containers
"""
