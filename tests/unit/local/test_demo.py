"""The demo's parcels and figures: what it sends, and that no wrong end would pass for a right one."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from shared.policy import Policy, check
from workers.local.demo.examples import load_examples
from workers.local.demo.figures import figures
from workers.local.demo.parcels import COUNT, LABEL, STATES, Fate, Parcel, Way, parcels
from workers.local.demo.senders import Sent
from workers.local.demo.state import Seen
from workers.local.history import Ran

REGIONS = ("us-east-1", "eu-west-1")


@pytest.fixture(scope="module")
def sent_parcels() -> list[Parcel]:
    return parcels(load_examples(), REGIONS)


def test_half_go_each_way_and_each_odd_fate_is_among_them(sent_parcels: list[Parcel]) -> None:
    fates = [parcel.fate for parcel in sent_parcels]

    assert len(sent_parcels) == COUNT
    assert sum(parcel.way is Way.API for parcel in sent_parcels) == COUNT // 2
    assert {fate: fates.count(fate) for fate in Fate} == dict.fromkeys(Fate, 1) | {Fate.SUCCEED: COUNT - 6}


def test_every_example_is_among_them_and_no_two_objects_share_a_name(sent_parcels: list[Parcel]) -> None:
    assert {parcel.example.file for parcel in sent_parcels} == {example.file for example in load_examples().values()}
    names = [(item["kind"], item["metadata"]["name"]) for parcel in sent_parcels for item in parcel.example.supporting]
    assert len(names) == len(set(names)) > 0


def test_only_the_one_that_is_to_be_refused_breaks_the_policy(sent_parcels: list[Parcel]) -> None:
    for parcel in sent_parcels:
        if parcel.fate is not Fate.REFUSED:
            check(dict(parcel.body["manifest"]), parcel.body.get("supporting", ()), namespace="gco-jobs", policy=Policy())


def test_a_renamed_service_is_still_found_by_the_pods_that_look_for_it() -> None:
    copy = load_examples()["training-ddp"].copy(7, {})

    pod = copy.manifest["spec"]["template"]["spec"]
    assert copy.supporting[0]["metadata"]["name"] == pod["subdomain"] == "ddp-peers-7"
    assert pod["containers"][0]["env"][0]["value"] == "$(GPUFLEET_JOB_NAME)-0.ddp-peers-7"


def test_the_malformed_message_is_no_json_and_the_others_are(sent_parcels: list[Parcel]) -> None:
    for parcel in sent_parcels:
        if parcel.fate is Fate.MALFORMED:
            with pytest.raises(ValueError, match="line 1"):
                json.loads(parcel.message())
        else:
            assert json.loads(parcel.message())["reference"] == parcel.reference


class Course:
    """A run that went well; a test spoils something of it."""

    def __init__(self, sent_parcels: list[Parcel]) -> None:
        self.parcels = sent_parcels
        self.sent = Sent()
        self.seen = Seen()
        self.ran: list[Ran] = []
        self.killed, self.restarts = ["dispatcher-us-east-1-1"], 1
        for parcel in sent_parcels:
            job_id = f"job-{parcel.number}"
            if parcel.accepted:
                self.seen.jobs.append({"job_id": job_id, "status": STATES[parcel.fate], "labels": {LABEL: str(parcel.number)}})
                self.sent.jobs[parcel.number] = job_id
                for number in range(1, 4 if parcel.fate is Fate.FLAKY else 2):
                    pods = [f"pod-{index}" for index in range(parcel.pods)]
                    self.ran.append(Ran(job_id=job_id, execution=number, objects={f"{job_id}-{number}"}, pods=pods))
            elif parcel.way is Way.API:
                self.sent.refused[parcel.number] = 422
            else:
                self.seen.rejections.append({"reference": None, "reason": "must be JSON"})
            if parcel.fate is Fate.TWICE:
                self.sent.replayed[parcel.number] = job_id

    def job(self, fate: Fate) -> Any:
        number = next(parcel.number for parcel in self.parcels if parcel.fate is fate)
        return next(job for job in self.seen.jobs if job["job_id"] == f"job-{number}")

    def wrong(self) -> set[str]:
        found = figures(self.parcels, self.sent, self.seen, self.ran, self.killed, self.restarts)
        return {figure.name for figure in found if not figure.right}


def test_a_run_that_went_well_has_no_wrong_figure(sent_parcels: list[Parcel]) -> None:
    assert Course(sent_parcels).wrong() == set()


def lose(course: Course) -> None:
    course.seen.jobs.remove(course.job(Fate.SUCCEED))


def never_end(course: Course) -> None:
    course.job(Fate.SUCCEED)["status"] = "running"


def swap_ends(course: Course) -> None:
    course.job(Fate.DOOMED)["status"], course.job(Fate.FLAKY)["status"] = "succeeded", "failed"


def double(course: Course) -> None:
    course.seen.jobs.append({**course.job(Fate.SUCCEED), "job_id": "another"})


def start_twice(course: Course) -> None:
    course.ran[0].objects.add("another")


def start_a_pod_too_many(course: Course) -> None:
    course.ran[0].pods.append("another")


def never_run(course: Course) -> None:
    course.ran.pop(0)


def run_a_stranger(course: Course) -> None:
    course.ran.append(Ran(job_id="stranger", execution=1, objects={"x"}, pods=["y"]))


def give_another_id(course: Course) -> None:
    course.sent.replayed = dict.fromkeys(course.sent.replayed, "another")


def refuse_a_good_one(course: Course) -> None:
    lose(course)
    course.sent.refused[0] = 422


def tell_of_no_rejection(course: Course) -> None:
    course.seen.rejections.clear()


def kill_nobody(course: Course) -> None:
    course.killed, course.restarts = [], 0


def start_nobody_again(course: Course) -> None:
    course.restarts = 0


@pytest.mark.parametrize(
    ("spoil", "wrong"),
    [
        (lose, {"accepted", "succeeded", "lost", "started twice"}),
        (never_end, {"succeeded", "lost"}),
        (swap_ends, {"succeeded"}),
        (double, {"accepted", "succeeded", "started twice"}),
        (start_twice, {"started twice"}),
        (start_a_pod_too_many, {"started twice"}),
        (never_run, {"started twice"}),
        (run_a_stranger, {"started twice"}),
        (give_another_id, {"sent twice, made once"}),
        (refuse_a_good_one, {"accepted", "succeeded", "rejected", "lost", "started twice"}),
        (tell_of_no_rejection, {"rejected", "lost"}),
        (kill_nobody, {"dispatchers killed"}),
        (start_nobody_again, {"workers started again"}),
    ],
)
def test_what_went_wrong_is_seen(sent_parcels: list[Parcel], spoil: Callable[[Course], None], wrong: set[str]) -> None:
    course = Course(sent_parcels)

    spoil(course)

    assert course.wrong() == wrong
