"""Admission: what a manifest must satisfy. One validator for every way in: the doors, the queue, templates and dry runs."""

from shared.policy.admission import Admission, check
from shared.policy.settings import Policy, Security

__all__ = ["Admission", "Policy", "Security", "check"]
