"""Run the benchmarks that docs/benchmarks.md quotes, and write their output into the page.

    python bench/run.py [NAME...] [--page-only] [--conversations DIR] [--documents DIR]

Runs each benchmark of RUNS, or those named, one after the other. The output goes to bench/results/NAME.json with the
command, commit, date, machine and load. Every block of the page between `<!-- result: NAME -->` and `<!-- end -->` is
then written anew from these files. --page-only skips the runs. A benchmark that fails leaves its last result, and so
does one of the retrieval benchmarks without the directories that it reads (see recall_quality.py).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench/results"
PAGE = ROOT / "docs/benchmarks.md"
BLOCK = re.compile(r"<!-- result: (?P<name>[\w-]+) -->\n.*?<!-- end -->", re.DOTALL)
# What follows `python` on the command line, by the name of the result. Words in capitals are directories.
RUNS = {
    "conversations": ["bench/recall_quality.py", "CONVERSATIONS"],
    "conversations-together": ["bench/recall_quality.py", "CONVERSATIONS", "--together"],
    "documents": ["bench/recall_quality.py", "DOCUMENTS"],
    "distant-matches": ["bench/distant_matches.py", "CONVERSATIONS"],
    "off-topic": ["bench/off_topic.py", "DOCUMENTS", "CONVERSATIONS"],
    "languages": ["bench/languages.py"],
    "long-texts": ["bench/long_texts.py"],
    "recall-speed": ["bench/recall_speed.py", "one", "--size", "5000"],
    "recall-http": ["bench/recall_http.py", "--size", "5000", "--clients", "1,8", "--rounds", "2"],
    "gateway": ["bench/gateway.py"],
    "statement-context": ["bench/statement_context.py"],
    "delivery": ["bench/delivery.py"],
    "contradictions": ["bench/contradictions.py"],
    "statement-pairs": ["bench/statement_pairs.py"],
    "entity_candidates": ["bench/entity_candidates.py"],
    "suggestions": ["bench/suggestions.py"],
    "prompts": ["bench/prompts.py"],
    "enrichment": ["bench/enrichment.py"],
    "watcher": ["bench/watcher.py"],
    "graph-page": ["bench/graph_page.py"],
    "analysis": ["bench/analysis.py", "--only", "queries"],
    "import-speed": ["bench/import_speed.py", "--rows", "20000", "--no-undo"],
    "growth": ["bench/recall_speed.py", "many", "--sizes", "10000,200000", "--queries", "50"],
    "fairness": ["bench/fairness.py"],
    "pages": ["bench/pages.py", "--large"],
}
DIRECTORIES = ("CONVERSATIONS", "DOCUMENTS")


def machine() -> str:
    """Describe processor, cores and memory, without the name of the host."""
    info = Path("/proc/cpuinfo")
    model = re.search(r"^model name\s*: (.+)$", info.read_text(), re.MULTILINE) if info.exists() else None
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{model[1] if model else platform.machine()}, {os.cpu_count()} cores, {memory:.0f} GB"


def commit() -> str:
    """Return the short hash, with "+ changes" if anything but results was changed since."""
    git = ["git", "-C", str(ROOT)]
    short = subprocess.run([*git, "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True, check=True)
    elsewhere = ["--", ".", ":!bench/results", ":!docs/benchmarks.md"]
    changed = subprocess.run([*git, "diff-index", "--quiet", "HEAD", *elsewhere], check=False).returncode
    return short.stdout.strip() + (" + changes" if changed else "")


def measure(arguments: list[str], directories: dict[str, str]) -> dict[str, Any]:
    """Run one benchmark. Raise CalledProcessError if it fails; its error output has been shown by then."""
    before = os.getloadavg()[0]
    given = [directories.get(argument, argument) for argument in arguments]
    ran = subprocess.run([sys.executable, *given], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return {
        "command": " ".join(["python", *arguments]),
        "commit": commit(),
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(),
        "load": [round(before, 1), round(os.getloadavg()[0], 1)],
        "output": [line.rstrip() for line in ran.stdout.strip("\n").splitlines()],
    }


def block(name: str) -> str:
    """Return the part of the page that shows a result: a table of Markdown as one, other output as it is."""
    file = RESULTS / f"{name}.json"
    if not file.exists():
        return f"<!-- result: {name} -->\nNot measured yet; `make bench BENCH={name}` does.\n<!-- end -->"
    result = json.loads(file.read_text())
    before, after = result["load"]
    lines = "\n".join(result["output"])
    shown = lines if all(line.startswith("|") for line in result["output"]) else f"```text\n{lines}\n```"
    source = (
        f"`{result['command']}` at {result['commit']}, {result['date']}; {result['machine']}; load {before} to {after}"
    )
    return f"<!-- result: {name} -->\n{source}:\n\n{shown}\n<!-- end -->"


def page(text: str) -> str:
    """Return the text of the page with every block written anew."""
    return BLOCK.sub(lambda found: block(found["name"]), text)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"default: all of {', '.join(RUNS)}")
    parser.add_argument("--page-only", action="store_true", help="write the page from the results that are there")
    for directory in DIRECTORIES:
        parser.add_argument(f"--{directory.lower()}", dest=directory, metavar="DIR", help="texts and questions")
    options = parser.parse_args()
    if unknown := set(options.names) - set(RUNS):
        parser.error(f"no benchmark is called {', '.join(sorted(unknown))}. There are: {', '.join(RUNS)}")
    directories = {name: path for name in DIRECTORIES if (path := getattr(options, name))}
    failed = []
    RESULTS.mkdir(exist_ok=True)
    for name in [] if options.page_only else options.names or RUNS:
        if missing := set(RUNS[name]) & set(DIRECTORIES) - set(directories):
            print(f"{name}: skipped, because it reads --{min(missing).lower()}", file=sys.stderr)
            continue
        print(name, file=sys.stderr)
        try:
            result = measure(RUNS[name], directories)
        except subprocess.CalledProcessError:
            failed.append(name)
            continue
        (RESULTS / f"{name}.json").write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    PAGE.write_text(page(PAGE.read_text()))
    if failed:
        sys.exit(f"Failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
