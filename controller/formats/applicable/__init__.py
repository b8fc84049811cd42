"""Makes rendered objects applicable by server-side apply, before their digest is taken. Pure (../README.md).

In: objects as a format rendered them, and the scope of their kinds. Out: the same objects, or BundleError
(InvalidBundle). Inputs are never modified, unchanged parts are shared, equal inputs give equal objects.
`controller/apply` adds owner label, annotations and references.

    applicable      START HERE: the steps in order, and the digest of the result
    invalid_fields  what is refused
    corrections     what is changed so that apply does what the author meant, and which nulls are removed
"""
