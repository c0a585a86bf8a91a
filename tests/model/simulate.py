"""Random stories with random seeds, for as long as you like: `python -m tests.model.simulate --minutes 10`.

Prints the shortest story that ends with a difference between the product and the model, and ends with status 1 if there
is one. `--seed` repeats one seed.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time

import django

STORIES_PER_SEED = 20


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare the product with the model in random stories.")
    parser.add_argument("--minutes", type=float, default=2, help="stop after this time")
    parser.add_argument("--seed", type=int, help="run only this seed")
    parser.add_argument("--steps", type=int, default=30, help="maximum number of steps of a story")
    arguments = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    django.setup()  # imports of models have to come after this
    from django.test.utils import setup_databases, setup_test_environment, teardown_databases

    setup_test_environment()
    databases = setup_databases(verbosity=0, interactive=False)
    _grant()
    try:
        return _simulate(arguments.minutes, arguments.seed, arguments.steps)
    finally:
        teardown_databases(databases, verbosity=0)


def _grant() -> None:
    """Grant the application's role its privileges, because services switch to it."""
    from django.db import connection

    from memory_project.operating.postgres.roles import statements

    role = connection.settings_dict.get("IDENTITY_ROLE")
    with connection.cursor() as cursor:
        for statement in statements(role, connection.pg_version) if role else []:  # type: ignore[attr-defined]
            cursor.execute(statement)


def _simulate(minutes: float, only_seed: int | None, steps: int) -> int:
    from django.db import transaction

    from tests.model.entities import catalog
    from tests.model.machine import Stories, run
    from tests.model.telling import Differs
    from tests.model.world import populate

    deadline, started, seeds = time.monotonic() + 60 * minutes, time.monotonic(), 0
    with transaction.atomic():
        Stories.callers = populate(catalog().values())
        while time.monotonic() < deadline:
            seed = random.randrange(2**32) if only_seed is None else only_seed
            try:
                run(seed=seed, examples=STORIES_PER_SEED, steps=steps)
            except Differs as difference:
                print(f"Seed {seed}, after {time.monotonic() - started:.0f} s and {seeds} other seeds:\n{difference}")
                return 1
            seeds += 1
            if only_seed is not None:
                break
        transaction.set_rollback(True)
    print(f"{seeds} seeds of {STORIES_PER_SEED} stories each, up to {steps} steps: no difference.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
