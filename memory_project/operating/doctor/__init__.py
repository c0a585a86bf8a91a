"""Checks of an installation, for the command `doctor`, Django's `check` and the System page.

Each check is a function that returns a Finding: what it found, and how to mend it. `facts` reads what the checks of the
database need in one statement, `examination` lists all checks in their groups and runs them with time limits.
"""
