"""The GCO door: wire-compatible with the manifest processor that existing clients know; what differs on purpose is in docs/doors.md."""
