"""What verbs and page show of a cluster and do to it, as the user who asks. Neither imports the other.

objects      START HERE: the objects of a BundleDeployment, wanted beside live; pure
states       what a BundleDeployment is doing; pure
comparison   what a revision would change, as values, text and data; pure
dry_run      finds that out, by a dry run of each apply
masking      Secrets without their values; pure

access       BundleDeployments, objects and stored revisions, read as the user
acts         what users do to a BundleDeployment, as requests
texts        YAML, JSON, tables and colors
mistakes     what a person is told in one line instead of a traceback
"""
