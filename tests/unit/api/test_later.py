"""Services that are made when they are first used."""

from workers.api.later import later


class Service:
    made = 0

    def __init__(self):
        Service.made += 1

    def answer(self):
        return 42


def test_nothing_is_made_before_it_is_asked_for_and_then_once():
    Service.made = 0
    service = later(Service)
    assert Service.made == 0

    assert [service.answer(), service.answer()] == [42, 42]
    assert Service.made == 1
