"""Print a random tenth of the source files, for a reader to check sentence by sentence.

    python bench/readability/sample.py [--round N]

Every round draws a different sample: the seed is SEED + N. The reader marks each docstring, comment, message and
template text that needs a second reading. The goal is fewer than 2 in 100.
"""

from __future__ import annotations

import argparse
import random
import subprocess
from pathlib import Path

SEED = 20_261_124
ROOT = Path(__file__).resolve().parent.parent.parent


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--round", type=int, default=1)
    options = parser.parse_args()
    patterns = ["foundation", "memories", "knowledge", "analysis", "memory_project", "templates"]
    listing = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    files = [name for name in listing.stdout.split() if name.endswith((".py", ".html")) and "/migrations/" not in name]
    files = [name for name in files if (ROOT / name).stat().st_size]
    chosen = random.Random(SEED + options.round).sample(files, len(files) // 10)
    print("\n".join(sorted(chosen)))


if __name__ == "__main__":
    main()
