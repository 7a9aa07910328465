"""One fleet on deployed stacks, for all tests of this folder: the demo's jobs have run on it."""

from __future__ import annotations

import asyncio
import sys
import zipfile
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
import pytest_asyncio
from botocore.credentials import Credentials
from rich.console import Console

from infra.functions import FUNCTIONS, named
from infra.lambdas.__main__ import build_all
from infra.lambdas.distributions import HOST, HOST_PYTHON, Target
from infra.outputs import CONTROL
from tests.infra.deployed.installation import CONTROL_REGION, FromStacks
from tests.infra.emulator.record import Asked
from tests.infra.fleet import EnforcedFleet
from tests.infra.privileges import verbs
from workers.cli.signing import SigningAuth
from workers.local.cluster.access import Record
from workers.local.demo import aftermath, story
from workers.local.demo.board import Board
from workers.local.demo.examples import load_examples
from workers.local.demo.figures import Figure
from workers.local.demo.parcels import parcels
from workers.local.demo.receiver import Receiver

ENVIRONMENT = {
    **story.SETTINGS,
    "GPUFLEET_WEBHOOK_LOCAL": "true",  # the demo's receiver is on this machine
    "GPUFLEET_USAGE_WRITE_SECONDS": "10",
}
"""What the demo decides, in the settings of the installation."""


@dataclass(frozen=True, kw_only=True)
class Deployed:
    """A fleet that has been at work, and what it did."""

    installation: FromStacks
    fleet: EnforcedFleet
    client: httpx.AsyncClient
    figures: Sequence[Figure]

    def asked(self) -> set[Asked]:
        return self.fleet.asked()

    def audit(self) -> list[Record]:
        return verbs.read(self.fleet.paths.audit)


PACKED = ("webhooks-relay", "webhooks-sweep", "sweeper", "health")
"""The functions that run from packages as `make lambdas` makes them, for this interpreter: those of which a few are at work at once. The
emulator unpacks one anew for each, which for hundreds of calls at once takes minutes; the others run the code of this checkout."""


@pytest.fixture(scope="session")
def synthesized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stacks of the default settings, over packages for this interpreter (`PACKED`)."""
    from infra.cdk.app import build
    from infra.cdk.settings import Installation

    folder = tmp_path_factory.mktemp("stacks")
    build_all([named(name) for name in PACKED], Target.checked(HOST_PYTHON, HOST), folder)
    for function in FUNCTIONS:
        if function.name not in PACKED:
            with zipfile.ZipFile(folder / f"{function.name}.zip", "w") as archive:
                archive.writestr("README", f"{function.name}: the code is that of the checkout")
    installation = Installation.load()
    installation = installation.model_copy(update={"environment": {**installation.environment, **ENVIRONMENT}})
    build(installation, packages=folder, outdir=folder / "cdk.out", checked=False).synth()
    return folder / "cdk.out"


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def deployed(synthesized: Path) -> AsyncIterator[Deployed]:
    installation = FromStacks(synthesized, ("us-east-1", "eu-west-1"))
    fleet = EnforcedFleet(installation)
    async with fleet, Receiver(secret=aftermath.new_secret()) as receiver, api(fleet, installation) as client:
        wanted = parcels(load_examples(), fleet.options.regions)
        await aftermath.subscribe(client, receiver)
        with pytest.MonkeyPatch.context() as patch, Board(Console(file=StringIO()), wanted, fleet.options.regions) as board:
            # What is overdue is seen to once a minute here, and not each second; so are GPUs.
            patch.setattr(story, "DEADLINE_SECONDS", 300.0)
            patch.setattr(aftermath, "WAIT_SECONDS", 120.0)
            demo = story.Demo(fleet, client, board, wanted)
            figures, _ = await demo.run()
            after = await aftermath.gather(client, receiver, demo.seen, fleet.options.regions, fleet.gpus)
        await fleet.invoke("gpufleet-costs", '{"task": "cost_window"}')  # its schedule of ten minutes comes later than the demo's end
        yield Deployed(installation=installation, fleet=fleet, client=client, figures=[*figures, *after.figures])


def api(fleet: EnforcedFleet, installation: FromStacks) -> httpx.AsyncClient:
    """A client of the HTTP API, found by the stack's output. The emulator serves it under a path of its own as well as under its name."""
    name = str(urlsplit(installation.outputs[CONTROL]["ApiUrl"]).hostname).partition(".")[0]
    url = f"{fleet.layout.aws_endpoint}/_aws/execute-api/{name}/$default"
    return httpx.AsyncClient(base_url=url, timeout=60, trust_env=False, auth=SigningAuth(Credentials("test", "test"), CONTROL_REGION))


async def printed(fleet: EnforcedFleet, *arguments: str) -> str:
    """What `python -m infra.outputs` prints for a person with the account's credentials."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "infra.outputs", *arguments),
        env=fleet.aws_env | {"PATH": "/usr/bin:/bin"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    told, _ = await process.communicate()
    return told.decode()
