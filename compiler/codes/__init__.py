"""The catalogue of finding codes that are not lint rules, one module a family.

A lint rule's code lives with the rule (``compiler.rules``).  Codes are never reused.
"""
