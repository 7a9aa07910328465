"""The demo: 60 jobs through both ways in, on two regions, with a dispatcher killed meanwhile; and the proof that every figure is right."""

from workers.local.demo.story import run

__all__ = ["run"]
