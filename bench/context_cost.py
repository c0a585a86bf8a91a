"""How much of a model's context the tools cost: characters of names, descriptions and input schemas, per toolset.

python bench/context_cost.py
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memory_project.settings")

import django

django.setup()

from memory_project.mcp.server import build_server  # noqa: E402 - after setup()


def main() -> None:
    server = build_server(toolsets=["all"], identify=lambda request: None)
    toolset_of = {name: tool.toolset for name, (tool, _) in server.offered.items()}
    costs: Counter[str] = Counter()
    for tool in asyncio.run(server.list_tools()):
        cost = len(tool.name) + len(tool.description or "") + len(json.dumps(tool.input_schema, ensure_ascii=False))
        costs[toolset_of[tool.name]] += cost
        print(f"{tool.name:20} {cost:6}")
    for toolset, cost in costs.items():
        print(f"{'= ' + toolset:20} {cost:6}")
    print(f"{'= all':20} {costs.total():6}")


if __name__ == "__main__":
    main()
