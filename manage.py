#!/usr/bin/env python3
"""Commonplace's command line: `manage.py help` lists the commands."""

from __future__ import annotations

from memory_project.__main__ import main

if __name__ == "__main__":
    main()
