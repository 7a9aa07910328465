"""The embedded fleet: every part of gpufleet as a process of this machine, for trying it out, for its demo and for its tests.

May import all other rooms; only the command imports it.
"""
