"""The demo: 60 jobs, a dispatcher killed meanwhile, what the consumers make of it, and the proof of every figure."""

from workers.local.demo.story import run

__all__ = ["run"]
