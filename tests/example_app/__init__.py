"""Example of an app that an installation adds: one tool in its own toolset, and one type of catalog change.

docs/extending.md explains it. tests/memory_project/test_example_app.py installs it and calls both over stdio.
"""
