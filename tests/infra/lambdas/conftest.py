"""The packages, built once a run, and containers of them over the emulator."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from infra.functions import named
from infra.lambdas.cold import unpacked
from infra.lambdas.distributions import HOST, HOST_PYTHON, Target
from infra.lambdas.packages import Package
from shared.settings import Settings
from tests.infra.lambdas.runtime import Running, container, of_this_process


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Package, Path]]:
    """A function's package for this interpreter, and where it is unpacked; each built when it is first asked for."""
    from infra.lambdas.__main__ import build_all

    folder = tmp_path_factory.mktemp("lambdas")
    built: dict[str, tuple[Package, Path]] = {}

    def of(name: str) -> tuple[Package, Path]:
        if name not in built:
            (package,) = build_all([named(name)], Target.checked(HOST_PYTHON, HOST), folder)
            built[name] = package, unpacked(package.path, folder / name)
        return built[name]

    return of


@pytest.fixture
async def deployed(packages, fleet_resources, tmp_path) -> AsyncIterator[Callable[..., object]]:
    """Starts containers of functions over the test's own fleet; they end with the test."""
    async with AsyncExitStack() as stack:

        async def start(name: str, *, settings: Settings | None = None, seconds: float | None = None, **variables: str) -> Running:
            _, root = packages(name)
            folder = tmp_path / f"{name}-container"
            folder.mkdir()
            environment = fleet_variables(settings or fleet_resources.settings) | of_this_process() | variables
            return await stack.enter_async_context(container(named(name), root, folder, environment, seconds=seconds))

        yield start


def fleet_variables(settings: Settings) -> dict[str, str]:
    """What the stacks tell every function."""
    return {
        "GPUFLEET_TABLE": settings.table,
        "GPUFLEET_BUCKET": settings.bucket,
        "GPUFLEET_QUEUE_PREFIX": settings.queue_prefix,
        "GPUFLEET_CONTROL_REGION": settings.control_region,
        "GPUFLEET_REGIONS": ",".join(settings.regions),
    }
