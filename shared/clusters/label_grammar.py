"""The grammar of label keys and label values. Source: apimachinery `util/validation` (qualified names, DNS-1123, label values)."""

from __future__ import annotations

import re
from typing import Final

_DNS_SUBDOMAIN: Final = re.compile(r"(?=.{1,253}$)[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")

KEY_RULE: Final = "key must be [prefix/]name: a DNS subdomain as prefix, at most 63 of letters, digits, '-', '_' and '.' as name"
VALUE_RULE: Final = "must be at most 63 of letters, digits, '-', '_' and '.', beginning and ending with a letter or digit"


def is_dns_subdomain(text: str) -> bool:
    """Whether a text can be the name of most objects, or the prefix of a key."""
    return _DNS_SUBDOMAIN.fullmatch(text) is not None


def is_qualified_name(text: str) -> bool:
    """Whether a text has the form [prefix/]name of label keys, annotation keys and resource names."""
    prefix, slash, name = text.rpartition("/")
    return _NAME.fullmatch(name) is not None and (not slash or is_dns_subdomain(prefix))


def is_label_value(text: str) -> bool:
    """Whether a text can be the value of a label; an empty one can."""
    return not text or _NAME.fullmatch(text) is not None
