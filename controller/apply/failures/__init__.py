"""What a refusal of the API server means.

In: an `ApiError`. Out: an `ApplyFailure`. All but the last are pure; trying again is left to `object/sender.py`.
START HERE: `replies`, in reading order:

    replies          from a reply to a reason, a message, and what can be done at once
    causes           what a reply says of fields, without the values that it quotes
    missing_rights   the rights that an account lacks, as a 403 names them
    required_rights  the rights that applying objects takes
    access_review    asks the API server which of these are missing
"""
