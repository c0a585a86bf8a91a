#!/usr/bin/env python3
"""Commonplace's command line: `manage.py help` lists the commands."""

from __future__ import annotations

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memory_project.settings")
    try:
        from django.core.management import execute_from_command_line  # noqa: PLC0415 - the hint below needs it
    except ImportError:
        sys.exit("Django is not installed here. Run `make install` first, then `.venv/bin/python manage.py …`.")
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
