"""The emulator's one account."""

ACCOUNT = "000000000000"
