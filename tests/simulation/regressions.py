"""Seeds that once found a fault, each with what it found. They are always run."""

from __future__ import annotations

REGRESSIONS: dict[int, str] = {
    7: "a dispatcher was killed between claim and commit, and its claim never lapsed: each sweep began a new grace",
    52: "a stop met an outage while a refused commit carried it out, and the dispatcher's task failed of it",
}
