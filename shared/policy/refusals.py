"""What stands against a request, gathered over all of its parts, so that it is told at once: broken rules, namespaces, sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from shared.clusters.trees import canonical, check_tree
from shared.errors import ForbiddenError, InvalidError, Problem, TooLargeError, cut
from shared.policy.fields import Report
from shared.policy.metadata import LABEL_RULE, is_dns_label
from shared.policy.settings import Policy, setting

Refusal = InvalidError | ForbiddenError | TooLargeError


class Refusals:
    """The refusals of one request under one policy."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._found: list[Refusal] = []

    def sound(self, value: object, place: str) -> bool:
        """Whether a part is an object that can be walked; what is against that is a refusal."""
        problems: list[Problem] = []
        try:
            check_tree(value, pointer=place, max_depth=self._policy.yaml_max_depth)
        except InvalidError as error:
            problems.extend(error.problems)
        if not isinstance(value, dict):
            problems.append(Problem(pointer=place, value=None, rule="must be an object"))
        if problems:
            self._found.append(InvalidError(problems))
        return not problems

    def namespace(self, namespace: str, pointer: str) -> None:
        """Refuse a namespace that is none, or not one of the policy's."""
        allowed = self._policy.allowed_namespaces
        if namespace in allowed:
            return
        if not is_dns_label(namespace):
            self._found.append(InvalidError([Problem(pointer=pointer, value=namespace, rule=LABEL_RULE)]))
            return
        rule = f"must be an allowed namespace: {', '.join(allowed)}; {setting('allowed_namespaces')} allows others"
        self._found.append(
            ForbiddenError(
                f"Namespace '{cut(namespace)}' not allowed. Allowed namespaces: {list(allowed)}",
                problems=[Problem(pointer=pointer, value=namespace, rule=rule)],
            )
        )

    def sizes(self, parts: Iterable[tuple[str, object]]) -> int:
        """Refuse every object that no cluster could store; return the bytes of all that can, or 0 where one can't."""
        total, large = 0, False
        for place, item in parts:
            size = len(canonical(item))
            total += size
            if size > self._policy.max_object_bytes:
                large = True
                self.add(TooLargeError(f"the object at {place}", size, self._policy.max_object_bytes, pointer=place))
        return 0 if large else total

    def add(self, refusal: Refusal) -> None:
        """Add a refusal that was found elsewhere."""
        self._found.append(refusal)

    @contextmanager
    def rules(self) -> Iterator[Report]:
        """Gather the problems of all rules that are asked inside, up to as many as are told."""
        report = Report()
        try:
            yield report
            report.finish()
        except InvalidError as invalid:
            self._found.append(invalid)

    def finish(self) -> None:
        """Raise what was found: as what it is, where it is of one sort, or else as an input with problems, ordered by place."""
        if not self._found:
            return
        if len(self._found) == 1:
            raise self._found[0]
        problems = sorted((one for refusal in self._found for one in refusal.problems), key=lambda problem: problem.pointer)
        if all(isinstance(refusal, ForbiddenError) for refusal in self._found):
            raise ForbiddenError(str(self._found[0]), problems=problems)
        raise InvalidError(problems)
