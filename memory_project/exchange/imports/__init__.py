"""Imports: a file is parsed into rows, the rows are looked at, and then taken over in the background."""
