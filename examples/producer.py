"""Drops a job on the submissions queue: python examples/producer.py examples/cuda-vectoradd.yaml"""

import json
import sys
import uuid
from pathlib import Path

import boto3
import yaml

documents = [one for one in yaml.safe_load_all(Path(sys.argv[1]).read_text()) if one]
message = {
    "manifest": next(one for one in documents if one["kind"] == "Job"),
    "supporting": [one for one in documents if one["kind"] != "Job"],
    "target_region": "any",
    "namespace": "gco-jobs",
    "reference": f"producer-{uuid.uuid4()}",  # our own name for it, by which a refusal can be found again
}
sqs = boto3.client("sqs")  # AWS_ENDPOINT_URL, AWS_REGION and credentials from the environment
queue = sqs.get_queue_url(QueueName="gpufleet-submissions")["QueueUrl"]
print(sqs.send_message(QueueUrl=queue, MessageBody=json.dumps(message))["MessageId"])
