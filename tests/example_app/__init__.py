"""An app as an installation would add it: one tool in a toolset of its own, and one type of catalog change.

docs/extending.md explains it; tests/memory_project/test_example_app.py installs it and calls both over stdio.
"""
