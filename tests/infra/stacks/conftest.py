"""Stacks, synthesized once a run for each installation that tests look at."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

collect_ignore_glob = [] if find_spec("aws_cdk") else ["test_stacks_*.py"]


@pytest.fixture(scope="session")
def assemblies(tmp_path_factory):
    """Assemblies by the name of their installation (`installations`)."""
    from tests.infra.stacks.assembly import Assemblies

    return Assemblies(tmp_path_factory.mktemp("stacks"))


@pytest.fixture(scope="session")
def two(assemblies):
    """The installation of the settings as they come: two regions."""
    return assemblies["two"]


@pytest.fixture(scope="session")
def five(assemblies):
    """Five regions, with tokens and an address for alarms."""
    return assemblies["five"]
