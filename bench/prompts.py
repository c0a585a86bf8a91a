"""Measure how often a hook brings memories for a prompt that are about it, and how often others.

    python bench/prompts.py [--verbose]

Fills a database with the demo, and sends the prompts of prompts.json as a colleague of the demo's analysts. Half of the
prompts have memories that matter to them: those that begin with or contain one of the texts in `finds`. To the others,
such as tasks for a programmer, nothing in the demo matters. Every other prompt is in the half `tuning`. Prints, for
several values of MIN_SCORE, the figures of each half, and then the times of requests to the three hooks.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import scratch

DATA = Path(__file__).with_suffix(".json")
SCORES = (0.20, 0.24, 0.28, 0.32, 0.36, 0.40)
COLLEAGUES = {"sales": "sales-analytics", "supply": "supply-chain"}


def fill() -> dict[str, Any]:
    from foundation import embedding  # noqa: PLC0415 - after setup()
    from foundation.people.models import Persona, PersonaMembership  # noqa: PLC0415 - after setup()
    from foundation.people.permissions import build_caller  # noqa: PLC0415 - after setup()
    from memories.retrieval import term_statistics  # noqa: PLC0415 - after setup()
    from memory_project.models import User  # noqa: PLC0415 - after setup()
    from memory_project.operating import demo  # noqa: PLC0415 - after setup()

    embedding.current(wait_s=300)
    demo.load_demo_catalog()
    people = demo.make_people()
    list(demo.make_memories(people))
    demo.make_insights(people)
    callers = {}
    for name, persona in COLLEAGUES.items():
        user = User.objects.create_user(f"{name}@bench.example", "a long password")
        PersonaMembership.objects.create(user=user, persona=Persona.objects.get(name=persona), is_default=True)
        callers[name] = build_caller(user, channel="bench")
    term_statistics.refresh()
    return callers


def ask(callers: dict[str, Any], prompts: list[dict[str, Any]], run: str) -> list[tuple[dict[str, Any], list[str]]]:
    """Return each prompt with the texts of the memories that come with it, each in a session of its own."""
    from memories.models import MemoryRecord  # noqa: PLC0415 - after setup()
    from memory_project.agents.session_context import ReadPrompt, read_prompt  # noqa: PLC0415 - after setup()

    results = []
    for number, row in enumerate(prompts):
        operation = ReadPrompt(session=f"{run} {number}", program="bench", prompt=row["prompt"])
        ids = read_prompt(callers[row["by"]], operation)["memory_ids"]
        results.append((row, [MemoryRecord.objects.get(pk=pk).content for pk in ids]))
    return results


def figures(results: list[tuple[dict[str, Any], list[str]]]) -> str:
    on_topic = [(row, texts) for row, texts in results if row["finds"]]
    off_topic = [texts for row, texts in results if not row["finds"]]
    helped = sum(any(matters(row, text) for text in texts) for row, texts in on_topic)
    brought = [matters(row, text) for row, texts in on_topic for text in texts]
    disturbed = sum(bool(texts) for texts in off_topic)
    share = sum(brought) / len(brought) if brought else 0.0
    return (
        f"{helped} of {len(on_topic)} | {len(brought) / len(on_topic):.1f} | {share:.2f} | "
        f"{disturbed} of {len(off_topic)}"
    )


def matters(row: dict[str, Any], text: str) -> bool:
    return any(part in text for part in row["finds"])


def time_requests(callers: dict[str, Any], prompts: list[dict[str, Any]]) -> None:
    """Print the times of requests to the three hooks, from the first middleware to the answer."""
    from django.conf import settings  # noqa: PLC0415 - after setup()
    from django.test import Client  # noqa: PLC0415 - after setup()

    from foundation.people.caller import system_caller  # noqa: PLC0415 - after setup()
    from memory_project.accounts.tokens import create_token  # noqa: PLC0415 - after setup()
    from memory_project.models import User  # noqa: PLC0415 - after setup()

    settings.ALLOWED_HOSTS = ["testserver"]
    clients = {}
    for name, caller in callers.items():
        user = User.objects.get(email=caller.email)
        _, token = create_token(system_caller(), user=user, name="bench")
        clients[name] = Client(headers={"authorization": f"Bearer {token}"})
    tables = ("sales.orders", "sales.returns", "supply.shipments", "inventory.stock_levels")
    requests = {
        "session-start": [("sales", {"entities": [name]}) for name in tables * 8],
        "prompt": [(row["by"], {"prompt": row["prompt"]}) for row in prompts],
        "tool": [("sales", {"statement": f"psql -c 'TABLE {name}'"}) for name in tables * 8],
    }
    for name, bodies in requests.items():
        times = []
        for number, (by, body) in enumerate([*bodies[:4], *bodies]):  # the first four load modules and fill caches
            body = {"session": f"timed {number}", "program": "bench", **body}
            before = time.perf_counter()
            response = clients[by].post(f"/api/v1/hooks/{name}/", body, content_type="application/json")
            times.append((time.perf_counter() - before) * 1000)
            assert response.status_code == 200, response.content
        times = times[4:]
        p95 = statistics.quantiles(times, n=20)[-1]
        print(f"{name}: p50 {statistics.median(times):.0f} ms, p95 {p95:.0f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--verbose", action="store_true", help="print what came with each prompt at the default score")
    options = parser.parse_args()
    scratch.setup()
    prompts = json.loads(DATA.read_text())
    from knowledge.context import prompt_match  # noqa: PLC0415 - after setup()
    from memory_project.agents import session_context  # noqa: PLC0415 - after setup()

    default = prompt_match.MIN_SCORE
    session_context.HOOK_S = 10.0
    with scratch.database():
        callers = fill()
        print("half | score | prompts helped | memories a prompt | share that matters | others disturbed")
        for half, rows in (("tuning", prompts[::2]), ("held out", prompts[1::2])):
            for score in SCORES:
                prompt_match.MIN_SCORE = score
                print(f"{half} | {score:.2f} | {figures(ask(callers, rows, f'{half} {score}'))}")
        prompt_match.MIN_SCORE = default
        for row, texts in ask(callers, prompts, "default") if options.verbose else ():
            print(f"\n{row['prompt']}")
            print("\n".join(f"    {'+' if matters(row, text) else '-'} {text}" for text in texts))
        time_requests(callers, prompts)


if __name__ == "__main__":
    main()
