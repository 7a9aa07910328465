"""The figures at the end: what must have come of what was sent, and what did."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from workers.local.demo.parcels import STATES, Fate, Parcel
from workers.local.demo.senders import Sent
from workers.local.demo.state import TERMINAL, Seen
from workers.local.history import Ran, count_by_job, started_twice

FLAKY_EXECUTIONS = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """One figure: what it must be, and what it is. `why` tells more where it is wrong."""

    name: str
    wanted: int
    found: int
    why: Sequence[str] = field(default_factory=tuple)

    @property
    def right(self) -> bool:
        """Whether it is."""
        return self.wanted == self.found and not self.why


def figures(parcels: Sequence[Parcel], sent: Sent, seen: Seen, ran: Sequence[Ran], killed: Sequence[str], restarts: int) -> list[Figure]:
    """All figures of a run. `killed` names the workers that were killed, `restarts` says how often one was started again."""
    counts = {"accepted": len(seen.jobs), **{state: seen.count(state) for state in ("succeeded", "failed", "cancelled")}}
    wanted = {"accepted": sum(parcel.accepted for parcel in parcels)} | {
        state: sum(STATES.get(parcel.fate) == state for parcel in parcels) for state in ("succeeded", "failed", "cancelled")
    }
    wrong = {"accepted": list(_wrong_copies(parcels, seen)), "succeeded": list(_wrong_ends(parcels, seen))}
    found = [Figure(name=name, wanted=wanted[name], found=counts[name], why=wrong.get(name, [])) for name in counts]
    return [
        *found,
        Figure(
            name="rejected",
            wanted=len(parcels) - wanted["accepted"],
            found=len(sent.refused) + len(seen.rejections),
            why=list(_wrong_rejections(parcels, sent, seen)),
        ),
        Figure(name="sent twice, made once", wanted=_count(parcels, Fate.TWICE), found=_replays(parcels, sent, seen)),
        Figure(name="tried three times", wanted=_count(parcels, Fate.FLAKY), found=_tried(parcels, seen, ran)),
        Figure(name="dispatchers killed", wanted=1, found=len(killed)),
        Figure(name="workers started again", wanted=len(killed), found=restarts),
        _twice(parcels, seen, ran),
        _lost(parcels, sent, seen),
    ]


def _twice(parcels: Sequence[Parcel], seen: Seen, ran: Sequence[Ran]) -> Figure:
    """From the clusters' own history; a succeeded job that no cluster has run would be as wrong as one that ran twice."""
    pods = {job["job_id"]: parcel.pods for parcel in parcels for job in seen.of(parcel)}
    twice = started_twice(ran, pods)
    known = count_by_job(ran)
    never = [
        f"job {job['job_id']} succeeded, and no cluster ran it"
        for job in seen.jobs
        if job["status"] == "succeeded" and job["job_id"] not in known
    ]
    strangers = [f"a cluster ran job {job_id}, of which the API knows nothing" for job_id in known if job_id not in pods]
    return Figure(name="started twice", wanted=0, found=len(twice), why=[*twice, *never, *strangers])


def _lost(parcels: Sequence[Parcel], sent: Sent, seen: Seen) -> Figure:
    """What was sent and came to no end: no job that has ended, and no refusal that its sender could read."""
    references = {one.get("reference") for one in seen.rejections}
    told = len(seen.rejections)
    lost = []
    for parcel in parcels:
        if parcel.accepted:
            if not any(job["status"] in TERMINAL for job in seen.of(parcel)):
                lost.append(f"{parcel.reference} ({parcel.way}, {parcel.fate})")
        elif parcel.number not in sent.refused and parcel.reference not in references and not (parcel.fate is Fate.MALFORMED and told):
            lost.append(f"{parcel.reference} ({parcel.way}, {parcel.fate})")
    return Figure(name="lost", wanted=0, found=len(lost), why=lost)


def _wrong_copies(parcels: Sequence[Parcel], seen: Seen) -> Iterable[str]:
    for parcel in parcels:
        jobs = seen.of(parcel)
        if len(jobs) > 1:
            yield f"{parcel.reference} became {len(jobs)} jobs: {', '.join(job['job_id'] for job in jobs)}"
        elif jobs and not parcel.accepted:
            yield f"{parcel.reference} ({parcel.fate}) became job {jobs[0]['job_id']}"


def _wrong_ends(parcels: Sequence[Parcel], seen: Seen) -> Iterable[str]:
    for parcel in parcels:
        for job in seen.of(parcel):
            if parcel.accepted and job["status"] != STATES[parcel.fate]:
                why = f": {job['error_message']}" if job.get("error_message") else ""
                yield f"{parcel.reference} ({parcel.fate}) is {job['status']}{why}"


def _wrong_rejections(parcels: Sequence[Parcel], sent: Sent, seen: Seen) -> Iterable[str]:
    for parcel in parcels:
        if parcel.accepted and parcel.number in sent.refused:
            yield f"{parcel.reference} was refused with {sent.refused[parcel.number]}"
    expected = {parcel.reference for parcel in parcels if not parcel.accepted}
    for one in seen.rejections:
        if one.get("reference") not in {None, *expected}:
            yield f"{one['reference']} was refused: {one.get('reason')}"


def _count(parcels: Sequence[Parcel], fate: Fate) -> int:
    return sum(parcel.fate is fate for parcel in parcels)


def _replays(parcels: Sequence[Parcel], sent: Sent, seen: Seen) -> int:
    return sum(
        sent.replayed.get(parcel.number) == sent.jobs.get(parcel.number) and len(seen.of(parcel)) == 1
        for parcel in parcels
        if parcel.fate is Fate.TWICE
    )


def _tried(parcels: Sequence[Parcel], seen: Seen, ran: Sequence[Ran]) -> int:
    executions: Mapping[str, int] = count_by_job(ran)
    return sum(
        executions.get(job["job_id"], 0) == FLAKY_EXECUTIONS for parcel in parcels if parcel.fate is Fate.FLAKY for job in seen.of(parcel)
    )
