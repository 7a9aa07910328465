"""Which URLs a webhook may have."""

from __future__ import annotations

import asyncio
import threading
from ipaddress import ip_address

import pytest

from shared.settings import Settings
from shared.webhooks import urls
from shared.webhooks.addresses import is_public
from shared.webhooks.urls import UrlRefusedError, UrlRules

PUBLIC = "93.184.215.14"


def rules(*addresses, **options):
    return UrlRules(resolve=lambda host, port: addresses or [PUBLIC], **options)


async def refusal(url, *addresses, **options):
    with pytest.raises(UrlRefusedError) as refused:
        await rules(*addresses, **options).check(url)
    assert str(refused.value) == f"Invalid webhook URL: {refused.value.rule}"
    return refused.value.rule


@pytest.mark.parametrize(
    ("url", "host", "port", "path"),
    [
        ("https://example.com", "example.com", 443, ""),
        ("https://example.com/", "example.com", 443, "/"),
        ("HTTPS://Example.COM./hook?a=b&c=%20", "example.com", 443, "/hook?a=b&c=%20"),
        ("https://example.com:8443/x", "example.com", 8443, "/x"),
        ("https://example.com:443", "example.com", 443, ""),
        ("https://example.com:/x", "example.com", 443, "/x"),
        ("https://hooks_eu.example.com?x", "hooks_eu.example.com", 443, "?x"),
        ("https://bücher.example/x", "xn--bcher-kva.example", 443, "/x"),
        ("https://1.1.1.1/x", "1.1.1.1", 443, "/x"),
        ("https://[2606:4700:4700::1111]:8443/x", "2606:4700:4700::1111", 8443, "/x"),
        ("https://3com.example", "3com.example", 443, ""),
        ("https://example.com/a@b:c//d", "example.com", 443, "/a@b:c//d"),
    ],
)
async def test_a_good_url_is_taken_apart(url, host, port, path):
    endpoint = await rules().check(url)

    assert (endpoint.target.host, endpoint.target.port, endpoint.target.path) == (host, port, path)
    assert endpoint.target.scheme == "https"
    assert len(endpoint.addresses) == 1


@pytest.mark.parametrize(
    ("written", "normal"),
    [
        ("https://example.com", "https://example.com"),
        ("https://example.com/A?b=C&d=%7e", "https://example.com/A?b=C&d=%7e"),
        ("HTTPS://Example.COM./Hook", "https://example.com/Hook"),
        ("https://example.com:443/", "https://example.com/"),
        ("https://example.com:/", "https://example.com/"),
        ("https://example.com:08443/", "https://example.com:8443/"),
        ("https://BÜCHER.example/x", "https://xn--bcher-kva.example/x"),
        ("https://XN--BCHER-KVA.example?x", "https://xn--bcher-kva.example?x"),
        ("https://1.1.1.1./", "https://1.1.1.1/"),
        ("https://1\u30021\uff0e1\uff611/", "https://1.1.1.1/"),
        ("https://\uff11.1.1.\u2460/", "https://1.1.1.1/"),
        ("https://[2606:4700:4700:0:0:0:0:1111]:8443/x", "https://[2606:4700:4700::1111]:8443/x"),
    ],
)
def test_what_was_checked_can_be_written_in_one_way(written, normal):
    target = rules().parse(written)

    assert target.url == normal
    assert rules().parse(normal) == target


def test_a_name_that_becomes_too_long_in_ascii_is_refused():
    url = "https://" + "ü" * 50 + ".example/"

    with pytest.raises(UrlRefusedError, match="its host in ASCII"):
        rules().parse(url + "a" * (2048 - len(url)))


@pytest.mark.parametrize(
    ("url", "rule"),
    [
        ("", "must begin with https://"),
        ("example.com", "must begin with https://"),
        ("http://example.com", "must begin with https://"),
        ("ftp://example.com", "must begin with https://"),
        ("https:/example.com", "must begin with https://"),
        ("https:example.com", "must begin with https://"),
        ("//example.com", "must begin with https://"),
        (" https://example.com", "blanks"),
        ("https://example.com/a b", "blanks"),
        ("https://example.com\t", "blanks"),
        ("https://exam\nple.com", "blanks"),
        ("https://example.com\\@127.0.0.1", "backslashes"),
        ("https://example.com/\x7f", "control"),
        ("https://example.com/\u0085", "control"),
        ("https://example.com/\u00a0", "blanks"),
        ("https://user@example.com", "user or a password"),
        ("https://user:pw@example.com", "user or a password"),
        ("https://@example.com", "user or a password"),
        ("https://example.com@127.0.0.1/", "user or a password"),
        ("https://example.com#x", "fragment"),
        ("https://example.com/#", "fragment"),
        ("https://127.0.0.1#@example.com", "fragment"),
        ("https://", "must have a host"),
        ("https:///x", "must have a host"),
        ("https://:443/", "must have a host"),
        ("https://.", "must have a host"),
        ("https://a..b", "must have a host"),
        ("https://-a.example", "must have a host"),
        ("https://127%2e0.0.1", "four decimal numbers"),
        ("https://a%2eb", "must have a host"),
        ("https://exa$mple.com", "must have a host"),
        ("https://" + "a" * 64 + ".example", "must have a host"),
        ("https://example.com:80", "its port must be 443 or 8443 (GPUFLEET_WEBHOOK_PORTS)"),
        ("https://example.com:22", "its port"),
        ("https://example.com:0", "its port"),
        ("https://example.com:65536", "its port"),
        ("https://example.com:4x", "after a colon a port"),
        ("https://example.com:-1", "after a colon a port"),
        ("https://example.com:443:443", "after a colon a port"),
        ("https://::1/", "after a colon a port"),
        ("https://[::1", "after a colon a port"),
        ("https://[::1]x", "after a colon a port"),
        ("https://[::g]", "in brackets"),
        ("https://[fe80::1%25eth0]", "in brackets"),
        ("https://[fe80::1%eth0]", "in brackets"),
        ("https://[127.0.0.1]", "in brackets"),
        ("https://example.com/ä", "ASCII"),
        ("https://example.com/" + "a" * 2048, "2048 characters"),
        ("https://xn--\u2603\u2603.example", "IDNA"),
    ],
)
async def test_a_bad_url_is_refused_with_its_rule(url, rule):
    assert rule in await refusal(url)


@pytest.mark.parametrize(
    "host",
    [
        "127.1",
        "2130706433",
        "0x7f000001",
        "0x7F.0.0.1",
        "0177.0.0.1",
        "017700000001",
        "127.0.0.01",
        "127.0.0.0x1",
        "1.2.3.4.5",
        "256.1.1.1",
        "example.1",
        "0x",
        "foo.0x1",
        "1",
    ],
)
async def test_addresses_in_odd_forms_are_refused(host):
    assert "four decimal numbers" in await refusal(f"https://{host}/")


@pytest.mark.parametrize("host", ["\uff11\uff12\uff17.\uff10.\uff10.\uff11", "127\u30020\u30020\u30021\u3002", "\u2460\u2461\u2466.0.0.1"])
async def test_addresses_in_other_digits_are_what_they_become(host):
    assert "127.0.0.1" in await refusal(f"https://{host}/")


NOT_PUBLIC = [
    "0.0.0.0", "10.1.2.3", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.255.255.254", "169.254.169.254", "172.16.0.1",
    "172.31.255.255", "192.0.0.9", "192.0.2.1", "192.31.196.1", "192.52.193.1", "192.88.99.1", "192.168.1.1", "192.175.48.1",
    "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255", "::", "::1",
    "::7f00:1", "::8.8.8.8", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe", "64:ff9b:1::8.8.8.8", "100::1", "2001::1", "2001:0:1::1", "2001:10::1", "2001:20::1", "2001:db8::1",
    "2002:7f00:1::", "2002:808:808::1", "2620:4f:8000::1", "3fff::1", "4000::1", "5f00::1", "fc00::1", "fd00:ec2::254", "fe80::1",
    "fec0::1", "ff02::1", "ff0e::1",
]  # fmt: skip


@pytest.mark.parametrize("address", NOT_PUBLIC)
async def test_an_address_that_is_not_public_is_refused(address):
    literal = f"[{address}]" if ":" in address else address

    assert not is_public(ip_address(address))
    assert "public addresses only" in await refusal(f"https://{literal}/")
    assert "public addresses only" in await refusal("https://example.com/", PUBLIC, address)


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "172.15.0.1", "172.32.0.1", "2606:4700::1", "2a00:1450::1", "64:ff9b::808:808"])
def test_an_address_of_a_public_host_is_taken(address):
    assert is_public(ip_address(address))


async def test_the_addresses_that_were_checked_are_returned_once_each():
    endpoint = await rules("1.1.1.1", "2606:4700::1", "1.1.1.1", "::ffff:8.8.8.8").check("https://example.com")

    assert [str(address) for address in endpoint.addresses] == ["1.1.1.1", "2606:4700::1", "8.8.8.8"]


async def test_only_allowed_hosts_where_any_are_named():
    named = {"allowed_hosts": ("Hooks.Example.com.", "1.1.1.1")}

    for url in ("https://hooks.example.com/x", "https://hooks.example.com./x", "https://1.1.1.1"):
        await rules(**named).check(url)
    for url in ("https://example.com", "https://a.hooks.example.com", "https://8.8.8.8"):
        assert "GPUFLEET_WEBHOOK_ALLOWED_DOMAINS" in await refusal(url, **named)
    assert "public addresses only" in await refusal("https://hooks.example.com", "10.0.0.1", **named)


@pytest.mark.parametrize(
    ("named", "url"),
    [
        ("Bücher.example", "https://xn--bcher-kva.example"),
        ("xn--bcher-kva.example", "https://bücher.example"),
        ("2606:4700::0:1111", "https://[2606:4700::1111]"),
        ("[2606:4700::1111]", "https://[2606:4700::1111]"),
    ],
)
async def test_an_allowed_host_is_the_same_however_it_is_written(named, url):
    assert (await rules(allowed_hosts=[named]).check(url)).addresses


@pytest.mark.parametrize(
    "url", ["http://localhost:80/x", "http://127.0.0.1:5000", "https://[::1]:9", "http://127.8.8.8", "https://example.com"]
)
async def test_a_local_fleet_may_speak_to_itself_by_http_and_at_any_port(url):
    address = "127.0.0.1" if "localhost" in url else PUBLIC

    assert (await rules(address, local=True).check(url)).addresses


@pytest.mark.parametrize(
    "url", ["http://10.0.0.1", "http://169.254.169.254/latest/meta-data", "http://0.0.0.0", "http://[::]", "ftp://127.0.0.1"]
)
async def test_a_local_fleet_may_not_speak_to_the_rest_of_its_network(url):
    assert await refusal(url, local=True)


@pytest.mark.parametrize(
    ("url", "rule"),
    [
        ("http://1.1.1.1", "http is for the loopback interface alone"),
        ("http://example.com", "http is for the loopback interface alone"),
        ("https://1.1.1.1:22", "443 or 8443"),
        ("https://example.com:22", "443 or 8443"),
    ],
)
async def test_a_local_fleet_keeps_the_rules_for_all_but_itself(url, rule):
    assert rule in await refusal(url, local=True)
    assert rule in await refusal(url, PUBLIC, "127.0.0.1", local=True)


async def test_a_host_that_is_not_found_may_be_later():
    def nothing(host, port):
        raise OSError("no such host")

    for resolve in (nothing, lambda host, port: []):
        with pytest.raises(UrlRefusedError) as refused:
            await UrlRules(resolve=resolve).check("https://example.com")
        assert refused.value.unresolved


async def test_a_resolver_that_hangs_holds_nobody_up(monkeypatch):
    monkeypatch.setattr(urls, "RESOLVE_SECONDS", 0.05)
    going_on = threading.Event()
    hanging = UrlRules(resolve=lambda host, port: [str(going_on.wait())])
    try:
        found = await asyncio.gather(*(hanging.check("https://example.com") for _ in range(6)), return_exceptions=True)
        assert all(isinstance(one, UrlRefusedError) and one.unresolved for one in found)
        assert await asyncio.to_thread(lambda: 1) == 1
    finally:
        going_on.set()


async def test_a_name_that_hangs_occupies_one_thread():
    going_on, asked_for = threading.Event(), threading.Event()
    asked = []

    def resolve(host, port):
        asked.append(host)
        if host == "slow.example":
            asked_for.set()
            going_on.wait()
        return [PUBLIC]

    both = UrlRules(resolve=resolve)
    waiting = [asyncio.create_task(both.check("https://slow.example")) for _ in range(100)]
    try:
        assert await asyncio.to_thread(asked_for.wait, 10)
        assert (await both.check("https://quick.example")).addresses
        assert sorted(asked) == ["quick.example", "slow.example"]
    finally:
        going_on.set()
    assert all(endpoint.addresses for endpoint in await asyncio.gather(*waiting))
    await both.check("https://slow.example")
    assert len(asked) == 3


async def test_ports_are_a_setting():
    assert (await rules(ports=[443, 9000]).check("https://example.com:9000")).target.port == 9000
    assert "443 or 9000" in await refusal("https://example.com:8443", ports=[443, 9000])
    assert "its port must be 9000" in await refusal("https://example.com", ports=[9000])


def test_ports_are_read_from_the_environment(monkeypatch):
    monkeypatch.setenv("GPUFLEET_WEBHOOK_PORTS", "443, 9000")
    assert UrlRules.of(Settings()).parse("https://example.com:9000").port == 9000


async def test_the_real_resolver_is_asked():
    assert "public addresses only" in await _system_refusal("https://localhost/")
    endpoint = await UrlRules(local=True).check("http://localhost/")
    assert {str(one) for one in endpoint.addresses} <= {"127.0.0.1", "::1"}


async def _system_refusal(url):
    with pytest.raises(UrlRefusedError) as refused:
        await UrlRules().check(url)
    return refused.value.rule
