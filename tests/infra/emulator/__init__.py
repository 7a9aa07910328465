"""The AWS emulator with IAM's checks in it: what each caller asks for is held to his policies, and written down."""
