"""The sections of api/README.md on the fields of spec and status.

sections  START HERE: from the schema of the CRD to a section for each block
examples.yaml  an example for each block of spec; tests apply them to a real API server
"""
