"""From a bundle to objects: one module for each generator of OLM v1.

In order: `access`, `definitions`, `kinds`, `workloads`, `webhooks`, `services`,
`certificates`. `names` names the objects.
"""
