"""`python -m bench [NAMES...] [--quick]`: measure, print one table, write bench/results.json. Exit code 1 when a bound is missed."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import logging
import sys
import time

import structlog

from bench.figures import Figure, Options, print_table, write_results

NAMES = (
    "calls",
    "idle",
    "throughput",
    "latency",
    "contention",
    "lists",
    "job_pages",
    "memory",
    "imports",
    "submitting",
    "webhooks",
    "scraping",
    "usage",
)


async def _measure(names: list[str], options: Options) -> list[Figure]:
    figures: list[Figure] = []
    for name in names:
        began = time.monotonic()
        print(f"{name} ...", end=" ", flush=True, file=sys.stderr)
        found: list[Figure] = await importlib.import_module(f"bench.{name}").run(options)
        print(f"{time.monotonic() - began:.0f} s", file=sys.stderr)
        figures += found
    return figures


def main() -> int:
    """The program."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of: {', '.join(NAMES)}; all unless said")
    parser.add_argument("--quick", action="store_true", help="fewer jobs and rounds; the bounds are the same")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(NAMES)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))} (known are {', '.join(NAMES)})")
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING), logger_factory=structlog.PrintLoggerFactory(sys.stderr)
    )
    options = Options(quick=arguments.quick)
    figures = asyncio.run(_measure(arguments.names or list(NAMES), options))
    print_table(figures)
    write_results(figures, options, anew=not arguments.names)
    return 0 if all(figure.ok for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
