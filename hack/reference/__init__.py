"""The sections of api/README.md on the types of spec and status.

sections  START HERE: from the schema of the CRD to a section for each type
examples.yaml  examples that show each type of spec; tests apply them to a real API server
"""
