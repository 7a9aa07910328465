"""The whole fleet in one process and in virtual time, with something going wrong at every call, from a seed.

`world` draws a run from a seed and drives it: processes (`processes`, `workers`) run the real code, its users (`users`, `workload`) submit,
cancel, suspend and delete, and everything it calls is behind a gate (`faults`): DynamoDB by the emulator's own handler (`dynamodb`), queues
and a bucket in memory (`sqs`, `s3`), simulated clusters under the real Kubernetes adapter (`cluster`). `disturber` kills and freezes.
`invariants` are checked after every effect, `verdict` ends the run at the first that is broken. `loop` makes waiting take no time.
`sabotage` takes a rule out of the real code, to see that it is missed.

`python -m tests.simulation --seeds 2000`; a seed that fails is run again, step by step, with `--seed N --trace`.
"""
