"""What a refusal of the API server means.

In: an `ApiError`. Out: an `ApplyFailure`. All modules but the last are pure. Not here: retrying (`object/sender.py`).
START HERE: `replies`, in reading order:

    replies          translates a reply to a reason, a message and a recovery
    causes           what a reply says about fields, without the values that it quotes
    missing_rights   the rights that an account lacks, as a 403 names them
    required_rights  the rights that applying objects requires
    access_review    asks the API server which of these are missing
"""
