from __future__ import annotations

import argparse
import importlib
import sys
import time
import traceback
from pathlib import Path

from tests.faults import table

for module in sorted(Path(__file__).parent.glob("of_*.py")):
    importlib.import_module(f"tests.faults.{module.stem}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Let faults happen to running installations, and print the table.")
    parser.add_argument("words", nargs="*", help="only faults whose name has one of these words; default: all")
    parser.add_argument("--pairs", action="store_true", help="two at a time: kills, database, disk and model")
    parser.add_argument("--list", action="store_true", help="print the names")
    arguments = parser.parse_args()
    chosen = [
        fault
        for fault in (table.pairs() if arguments.pairs else table.FAULTS.values())
        if not arguments.words or any(word in fault.name for word in arguments.words)
    ]
    if arguments.list:
        sys.exit("\n".join(fault.name for fault in chosen))
    print(table.HEAD, flush=True)
    failed = [fault.name for fault in chosen if not _succeeds(fault)]
    if failed:
        sys.exit(f"{len(failed)} of {len(chosen)} faults did harm: {', '.join(failed)}")


def _succeeds(fault: table.Fault) -> bool:
    started = time.monotonic()
    try:
        print(table.run(fault), flush=True)
    except Exception:  # the other faults still get their rows
        print(f"| {fault.name} | failed after {time.monotonic() - started:.0f} s |", flush=True)
        traceback.print_exc()
        return False
    return True


if __name__ == "__main__":
    main()
