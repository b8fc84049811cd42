"""Verbs for RukPak itself.

crd        the CustomResourceDefinition
version    versions of program, controller and API
check      what RukPak needs: checks.py
uninstall  removal: parts.py
"""
