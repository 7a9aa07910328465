"""Seeds that once found a fault, each with what it found. They are always run.

What a seed stands for changes when the world is drawn in another way; a fault that matters has a test of its own beside its code.
"""

from __future__ import annotations

REGRESSIONS: dict[int, str] = {
    7: "a dispatcher was killed between claim and commit, and its claim never lapsed: each sweep began a new grace",
    40803: "a sweeper was late to stop an execution for its limit: the job had gone on to the next one, and failed for good in the queue",
}
