"""Drops jobs on the submissions queue of an emulator, and waits until as many more have ended.

    python localstack/producer.py examples/preprocess-cpu.yaml --times 20

Where, and what it needs: `status.py`. Ends with 1 where they have not ended in time, or where one was refused.
"""

import argparse
import json
import sys
import time
import uuid
from pathlib import Path

import yaml
from status import ENDED, client, jobs, queues


def message(path: Path) -> dict:
    """The message of a file with a Job and what supports it."""
    documents = [one for one in yaml.safe_load_all(path.read_text(encoding="utf-8")) if one]
    return {
        "manifest": next(one for one in documents if one["kind"] == "Job"),
        "supporting": [one for one in documents if one["kind"] != "Job"],
        "target_region": "any",
        "namespace": "gco-jobs",
    }


def ended(table: str, regions: list[str]) -> int:
    """How many jobs have ended."""
    return sum(count for states in jobs(table, regions).values() for state, count in states.items() if state in ENDED)


def main() -> int:
    """The program; returns its exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--prefix", default="gpufleet", help="of the names of the queues")
    parser.add_argument("--table", default="gpufleet")
    parser.add_argument("--regions", type=lambda text: text.split(","), default=["us-east-1", "eu-west-1"])
    parser.add_argument("--within", type=float, default=120.0, help="seconds")
    chosen = parser.parse_args()
    dead = f"{chosen.prefix}-submissions-dead"
    before, refused = ended(chosen.table, chosen.regions), queues(chosen.prefix)[dead]["waiting"]
    sqs = client("sqs")
    url = sqs.get_queue_url(QueueName=f"{chosen.prefix}-submissions")["QueueUrl"]
    for _ in range(chosen.times):
        sqs.send_message(QueueUrl=url, MessageBody=json.dumps(message(chosen.file) | {"reference": f"producer-{uuid.uuid4()}"}))
    deadline = time.monotonic() + chosen.within
    while (left := chosen.times - (ended(chosen.table, chosen.regions) - before)) > 0:
        if (lost := queues(chosen.prefix)[dead]["waiting"] - refused) > 0:
            sys.stderr.write(f"{lost} refused: gpufleet rejections\n")
            return 1
        if time.monotonic() > deadline:
            sys.stderr.write(f"{left} of {chosen.times} have not ended within {chosen.within:g} s\n")
            return 1
        time.sleep(0.5)
    print(f"{chosen.times} jobs have ended")
    return 0


if __name__ == "__main__":
    sys.exit(main())
