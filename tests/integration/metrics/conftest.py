"""A cluster with GPUs for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.metrics.stage import GpuCluster, gpu_cluster


@pytest.fixture
async def gpus(tmp_path: Path) -> AsyncIterator[GpuCluster]:
    """Two nodes of four GPUs of NVIDIA, one of eight of AMD, and one without."""
    async with gpu_cluster(tmp_path) as found:
        yield found
