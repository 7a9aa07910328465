"""A visit that leads to every call that a fleet makes of AWS and of its clusters.

The steps ask as users do: the API, producers on the queue, operators of dead letters. What the emulator knows as its root stands for them.
"""
