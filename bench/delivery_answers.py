from __future__ import annotations


def compare(*a):
    pass
