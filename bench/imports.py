"""How long a cold start of the submit handler imports, and what workers import that they don't use.

What is imported before the first submission of a container is answered: `workers.api.lambda_handler`, and the group of routes that the
submission opens. It is imported in a fresh interpreter, and in another one the same third-party modules without any of ours, in the order
in which ours came to them. Both include what these take of the standard library. Fifteen runs of both alternate, after one of each that
fills the file cache; the figure is the ratio of the medians of processor time: nothing waits for a disk then, and what else the
machine does is no part of it.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path

from bench.figures import Figure, Options

COLD_START = ("workers.api.lambda_handler", "workers.api.gco.queue")
RUNS = 15
WORKERS = {
    "workers.api.lambda_handler": ("kubernetes", "limits"),
    "workers.ingest.__main__": ("kubernetes", "fastapi"),
    "workers.sweeper.__main__": ("kubernetes", "fastapi"),
    "workers.costs.__main__": ("kubernetes", "fastapi", "pyarrow"),
    "workers.costs.handler": ("kubernetes", "fastapi", "pyarrow"),
    "workers.metrics.__main__": ("kubernetes", "fastapi"),
    "workers.metrics.handler": ("kubernetes", "fastapi"),
    "workers.dispatcher.__main__": ("fastapi",),
    "workers.observer.__main__": ("fastapi",),
}
"""Programs, and the packages that they have no use for: only dispatchers and observers speak to clusters, only the API serves HTTP, and
on Lambda API Gateway throttles."""
_ROOT = Path(__file__).parent.parent
_OURS = ("shared", "workers")

_LIST = "import json, sys, {names}; print(json.dumps(list(sys.modules)))"
_IMPORT_ALL = """import importlib
for name in {names!r}:
    try: importlib.import_module(name)
    except ImportError: pass"""


async def run(options: Options) -> list[Figure]:
    """The figures of imports."""
    loaded = modules(*COLD_START)
    others = [name for name in loaded if _is_third_party(name)]
    programs = {"handler": f"import {', '.join(COLD_START)}", "third parties": _IMPORT_ALL.format(names=others)}
    times: dict[str, list[float]] = {name: [] for name in programs}
    for number in range(1 + (5 if options.quick else RUNS)):
        for name, imports in programs.items():
            took = float(_fresh(_timed(imports)))
            if number:
                times[name].append(took)
    medians = {name: statistics.median(found) for name, found in times.items()}
    unused = {module: found for module, packages in WORKERS.items() if (found := unused_imports(module, packages))}
    ours = sum(name.partition(".")[0] in _OURS for name in loaded)
    return [
        Figure(
            name="cold import of the submit handler",
            value=medians["handler"] / medians["third parties"],
            bound=1.3,
            unit="x its third parties'",
            note=f"median of {len(times['handler'])} fresh interpreters each; {ours} modules of ours, {len(others)} of others",
            details={"median_milliseconds": {name: round(value * 1000) for name, value in medians.items()}},
        ),
        Figure(
            name="workers that import Kubernetes or FastAPI unused",
            value=len(unused),
            bound=0,
            unit="workers",
            note=f"of {len(WORKERS)}, by what fresh interpreters have loaded",
            details=unused,
        ),
    ]


def modules(*names: str) -> list[str]:
    """What a fresh interpreter has loaded after importing some modules, in order."""
    found: list[str] = json.loads(_fresh(_LIST.format(names=", ".join(names))))
    return found


def unused_imports(module: str, packages: tuple[str, ...]) -> list[str]:
    """Which of the packages a module brings with it."""
    loaded = {name.partition(".")[0] for name in modules(module)}
    return sorted(loaded & set(packages))


def _is_third_party(name: str) -> bool:
    top = name.partition(".")[0]
    return top not in _OURS and top not in sys.stdlib_module_names and not top.startswith("_") and "<" not in name


def _timed(imports: str) -> str:
    return f"import time\nbegan = time.process_time()\n{imports}\nprint(time.process_time() - began)"


def _fresh(program: str) -> str:
    answer = subprocess.run([sys.executable, "-c", program], cwd=_ROOT, check=True, capture_output=True, text=True)
    return answer.stdout.strip().splitlines()[-1]
