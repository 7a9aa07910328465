"""The user's own settings (`GPUFLEET_…`) for the workers of an embedded fleet, looked at before anything is started.

Workers that start with a setting they can't read die, are started again and die again; so what is wrong with one is told here, once.
What the embedded fleet decides itself can't be set: where the environment says something else, it is meant for another installation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from workers.local import outside
from workers.local.environment import CONTROL_REGION, settings_alone
from workers.local.refusals import Refusal, UnusableError
from workers.loopback import is_loopback

if TYPE_CHECKING:
    from pydantic import ValidationError

    from shared.settings import Settings

PREFIX = "GPUFLEET_"
_NOT_FOR_WORKERS = {"GPUFLEET_API", "GPUFLEET_KEY", "GPUFLEET_ALLOW_HTTP", "GPUFLEET_TEST_AWS_ENDPOINT", "GPUFLEET_PROBE_PORT"}
"""What the command and the tests read, and what the image sets for one worker alone: those of a fleet would share the port."""
_OF_THE_API = "GPUFLEET_API_TRUSTED_PROXIES"
_OF_A_JOB = {"GPUFLEET_JOB_ID", "GPUFLEET_JOB_NAME", "GPUFLEET_EXECUTION"}
"""What a fleet tells the containers of its jobs, of which this process may be one."""
_LONGEST_SECONDS = 365 * 24 * 3600.0
_SHOWN = 120

_DECIDED = {
    "GPUFLEET_CONTROL_REGION": (CONTROL_REGION, "leave it out"),
    "GPUFLEET_TABLE": ("gpufleet", "leave it out"),
    "GPUFLEET_BUCKET": ("gpufleet", "leave it out"),
    "GPUFLEET_QUEUE_PREFIX": ("gpufleet", "leave it out"),
    "GPUFLEET_REGIONS": (None, "use --regions"),
    "GPUFLEET_KUBECONFIG": (None, "use --kubeconfig"),
    "GPUFLEET_EKS_CLUSTERS": (None, "use --kubeconfig"),
    "GPUFLEET_SPOT_PRICES_FILE": (None, "edit spot-prices.json in the state directory, also while it runs"),
    "GPUFLEET_API_HOST": ("127.0.0.1", "use --host"),
    "GPUFLEET_API_PORT": (None, "use --api-port"),
}
"""Settings that the embedded fleet decides: its value, where there is one value, and what to do instead."""


def of_user(environ: Mapping[str, str], **decided: str) -> tuple[dict[str, str], list[str]]:
    """The settings in an environment that the workers get, and the names of those that no program knows.

    `decided` says what options have decided, by the setting's name, so that the same value is no contradiction. Raises UnusableError.
    """
    from shared.settings import Settings

    known = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields} | {_OF_THE_API}
    given: dict[str, str] = {}
    unknown: list[str] = []
    refusals: list[Refusal] = []
    for written, value in environ.items():
        name = written.upper()  # settings are read so
        if not name.startswith(PREFIX) or name.startswith(outside.PREFIX) or name in _NOT_FOR_WORKERS | _OF_A_JOB:
            continue
        if name in _DECIDED:
            own, instead = _DECIDED[name]
            if value != decided.get(name, own):
                refusals.append(Refusal(name, _cut(value), f"must be left to gpufleet up; {instead}"))
        elif name in known:
            given[name] = value
        else:
            unknown.append(written)
    if refusals:
        raise UnusableError(refusals)
    return given, sorted(unknown)


def check(variables: Mapping[str, str], *, api_host: str = "127.0.0.1") -> Settings:
    """Read settings and policy as a worker with this environment will. Raises UnusableError that names every setting that is wrong."""
    from pydantic import ValidationError

    from shared.settings import Settings

    with settings_alone(variables):
        try:
            settings = Settings()
        except ValidationError as error:
            raise UnusableError(faults_of(error)) from error
    refusals = [*_faults_of_seconds(settings), *_faults_of_policy(settings), *_faults_of_identity(settings, api_host)]
    if refusals:
        raise UnusableError(refusals)
    return settings


def faults_of(error: ValidationError) -> list[Refusal]:
    """What pydantic says of settings, by the names that they have in the environment."""
    from shared.settings import setting_problems

    return [Refusal(one.pointer, _cut(one.value), one.rule) for one in setting_problems(error)]


def _faults_of_identity(settings: Settings, api_host: str) -> list[Refusal]:
    if not settings.identity and not is_loopback(api_host):
        rule = "must be of the loopback interface without an identity source; --identity keys (GPUFLEET_IDENTITY) is one"
        return [Refusal("--host", _cut(api_host), rule)]
    if set(settings.identity) - {"keys"}:
        rule = "must be keys; iam and jwt are for API Gateway, which no embedded fleet has"
        return [_refusal("identity", ",".join(settings.identity), rule)]
    return []


def _faults_of_seconds(settings: Settings) -> list[Refusal]:
    found = {name: value for name, value in settings if name.endswith("_seconds")}
    rule = f"must be at most {_LONGEST_SECONDS:.0f} seconds, a year"
    return [_refusal(name, value, rule) for name, value in found.items() if not value <= _LONGEST_SECONDS]


def _faults_of_policy(settings: Settings) -> list[Refusal]:
    from shared.errors import InvalidError, TooLargeError
    from shared.policy.loading import load_policy

    path = settings.policy_file
    try:
        load_policy(path)
    except OSError as error:
        return [_refusal("policy_file", path, f"must be a file that can be read: {error.strerror}")]
    except TooLargeError as error:
        return [_refusal("policy_file", path, str(error))]
    except InvalidError as invalid:
        return [_refusal("policy_file", path, f"{one.pointer}: {one.rule}" if one.pointer else one.rule) for one in invalid.problems]
    return []


def _refusal(field: str, value: Any, rule: str) -> Refusal:
    return Refusal(f"{PREFIX}{field.upper()}", _cut(str(value)), rule)


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
