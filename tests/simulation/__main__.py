"""The simulation as a command: many seeds, or one with its whole trace. Exit code 1 where anything was violated."""

# ruff: noqa: T201 - a command prints
from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections import Counter

from tests.simulation import sabotage
from tests.simulation.pool import results
from tests.simulation.world import KEPT, Result, run

_STEP = 100


def main(arguments: list[str] | None = None) -> int:
    """Run what was asked for; returns the exit code."""
    options = _parser().parse_args(arguments)
    if options.seed is not None:
        return _one(options.seed, options.sabotage, whole=options.trace)
    return _many(range(options.start, options.start + options.seeds), options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=2000, help="how many seeds to run (2000)")
    parser.add_argument("--start", type=int, default=0, help="the first of them (0)")
    parser.add_argument("--seed", type=int, help="run this one seed and print its trace")
    parser.add_argument("--trace", action="store_true", help=f"with --seed: every step instead of the last {KEPT}")
    parser.add_argument(
        "--sabotage", choices=sorted(sabotage.SABOTAGES), help="take out a rule that makes it safe, to see that this is noticed"
    )
    parser.add_argument("--jobs", type=int, default=multiprocessing.cpu_count(), help="how many processes to use (one per processor)")
    parser.add_argument("--go-on", action="store_true", help="go on after a violation")
    return parser


def _one(seed: int, sabotaged: str | None, *, whole: bool) -> int:
    with sabotage.applied(sabotaged):
        result = run(seed, kept=None if whole else KEPT)
    print("\n".join(result.trace))
    print(f"\nseed {seed}: {result.steps} steps in {result.seconds:.0f} simulated seconds, digest {result.digest}")
    _summarize(result.counts)
    if result.violation is not None:
        print(f"\nVIOLATION  {result.violation.invariant}\n{result.violation.details}")
    return int(result.violation is not None)


def _many(seeds: range, options: argparse.Namespace) -> int:
    began = time.monotonic()
    counts: Counter[str] = Counter()
    violations: list[Result] = []
    steps, done, simulated = 0, 0, 0.0
    for result in results(seeds, sabotaged=options.sabotage, processes=options.jobs):
        done += 1
        steps += result.steps
        simulated += result.seconds
        counts += result.counts
        if result.violation is not None:
            violations.append(result)
            _tell(result, whole=not options.go_on)
            if not options.go_on:
                break
        if done % _STEP == 0 or done == len(seeds):
            print(
                f"{done} of {len(seeds)} seeds, {steps} steps, {len(violations)} violations, {time.monotonic() - began:.0f} s", flush=True
            )
    _summarize(counts)
    seconds = time.monotonic() - began
    print(
        f"\n{done} seeds, {steps} steps, {simulated / 3600:.0f} simulated hours, {len(violations)} violations, "
        f"{seconds:.0f} s ({seconds * options.jobs / max(done, 1):.2f} s a seed and process)"
    )
    if violations:
        print(f"violated by seeds {', '.join(str(result.seed) for result in violations)}")
    return int(bool(violations))


def _tell(result: Result, *, whole: bool) -> None:
    assert result.violation is not None
    if whole:
        print("\n".join(result.trace))
    print(f"VIOLATION  seed {result.seed}: {result.violation.invariant}\n  {result.violation.details}", flush=True)


def _summarize(counts: Counter[str]) -> None:
    """What was counted, by what it is."""
    groups: dict[str, dict[str, int]] = {}
    for name, count in sorted(counts.items()):
        group, _, what = name.partition(": ")
        groups.setdefault(group, {})[what] = count
    titles = {"fault": "faults injected", "state": "states reached", "transition": "transitions taken", "event": "events", "job": "jobs"}
    for group, members in groups.items():
        print(f"\n{titles.get(group, group)}")
        for what, count in members.items():
            print(f"  {count:>8}  {what}")


if __name__ == "__main__":
    sys.exit(main())
