"""The words of the command line: verbs, flags, help and mistakes. Nothing here imports what a verb does.

verbs      START HERE: every verb with its help and examples, and the function that runs it
arguments  the flags of each verb
switches   flags without a value: --flag, --no-flag
parser     argparse, with help as kubectl has it and the nearest valid word for a mistake
listing    verbs, flags and their values as data, for shell completion
"""
