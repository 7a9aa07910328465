"""The embedded fleet: everything that `gpufleet up` starts on one machine."""
