"""The hook program of the plugin: a copy of Commonplace's own, which needs nothing but Python 3.11."""

from __future__ import annotations

import sys
from pathlib import Path

TOO_OLD = 3  # bin/commonplace-hook then tries the next Python

try:
    import tomllib  # noqa: F401 - came with Python 3.11
except ImportError:
    sys.exit(TOO_OLD)


def main() -> None:
    sys.path.insert(0, str(Path(__file__).parent))
    if sys.argv[1:2] == ["--status"]:
        from memory_project.agents.hook_program import status  # noqa: PLC0415 - a hook must start fast

        print(status.as_text(status.report()))
    else:
        from memory_project.agents.hook_program import hook  # noqa: PLC0415

        hook.run(sys.argv[1:])


main()
