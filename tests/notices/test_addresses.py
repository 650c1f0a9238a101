"""Where webhooks may be: what is refused, however it is spelled and whatever its name means by now."""

from __future__ import annotations

import socket
from ipaddress import ip_address
from typing import Any

import pytest

from glidepath.config import NoticesSettings
from glidepath.notices.address import NotFound, NotThere, Reach, Target, addresses_of, reach_of, target_of


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://hooks.example.org/x", Target(True, "hooks.example.org", 443, "/x")),
        ("https://hooks.example.org", Target(True, "hooks.example.org", 443, "/")),
        (
            "https://HOOKS.example.org:8443/x?y=1&z=%20",
            Target(True, "hooks.example.org", 8443, "/x?y=1&z=%20"),
        ),
        ("http://93.184.216.34:80/", Target(False, "93.184.216.34", 80, "/")),
        ("https://[2606:2800:220:1::1]:1024/x", Target(True, "2606:2800:220:1::1", 1024, "/x")),
        ("https://xn--bcher-kva.example/x", Target(True, "xn--bcher-kva.example", 443, "/x")),
    ],
)
def test_an_address_is_read_in_the_one_way_that_it_can_be(url: str, expected: Target) -> None:
    assert target_of(url) == expected


@pytest.mark.parametrize(
    "url",
    [
        *("", "hooks.example.org", "//hooks.example.org/x", "https:hooks.example.org", "https:///x"),
        *("ftp://hooks.example.org/x", "file:///etc/passwd", "gopher://127.0.0.1:25/x", "unix:///run/x"),
        # A user who looks like the machine.
        *("https://hooks.example.org@127.0.0.1/", "https://a:b@hooks.example.org/", "https://@10.0.0.1/"),
        # Other forms of 127.0.0.1, which some resolvers understand.
        *("http://2130706433/", "http://0177.0.0.1/", "http://0x7f.0.0.1/", "http://0x7f000001/"),
        *("http://127.1/", "http://127.0.1/", "http://017700000001/", "http://127.0.0.01/", "http://0/"),
        *("https://127.0.0.1./", "https://hooks.example.org./", "https://a..b/", "https://-a.example/"),
        *("https://[::1/", "https://[fe80::1%25eth0]/", "https://[fe80::1%eth0]/", "https://[::1]x/"),
        # What is taken off or turned into something else by one reader and not by the next.
        *("https://hooks.example.org\t/x", "https://hooks.exa\nmple.org/", " https://hooks.example.org/"),
        *(
            "https://hooks.example.org\\@127.0.0.1/",
            "https://hooks.example.org/x y",
            "https://b\u00fccher.example/",
        ),
        *(
            "https://\u2460\u2461\u2466.0.0.1/",
            "https://hooks.example.org/#x",
            "https://hooks.example.org#@b/",
        ),
        # Ports of other services.
        *("https://hooks.example.org:25/", "https://hooks.example.org:22/", "https://hooks.example.org:0/"),
        *(
            "https://hooks.example.org:65536/",
            "https://hooks.example.org:-1/",
            "https://hooks.example.org:a/",
        ),
        f"https://hooks.example.org/{'x' * 1000}",
    ],
)
def test_what_could_be_read_otherwise_is_no_address(url: str) -> None:
    with pytest.raises(NotThere):
        target_of(url)


PRIVATE = [
    *("127.0.0.1", "127.255.0.9", "10.0.0.1", "172.16.5.4", "192.168.1.1", "0.0.0.0", "0.1.2.3"),
    *("169.254.169.254", "169.254.0.1", "100.64.0.1", "100.100.100.200", "192.0.0.192", "198.18.0.1"),
    *("192.0.2.1", "224.0.0.1", "239.1.1.1", "255.255.255.255", "240.0.0.1", "168.63.129.16"),
    *("::", "::1", "fe80::1", "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1", "2001:db8::1", "100::1"),
    # Of version 4 within version 6: mapped, compatible, translated, 6to4, Teredo.
    *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:a9fe:a9fe", "::127.0.0.1", "::ffff:0:10.0.0.1"),
    *("64:ff9b::127.0.0.1", "64:ff9b::a00:1", "64:ff9b:1::1", "2002:7f00:1::", "2002:a00:1::1"),
    "2001:0:53aa:64c:0:0:f5ff:fffe",
]
PUBLIC = ["93.184.216.34", "8.8.8.8", "2606:2800:220:1::1", "::ffff:8.8.8.8", "64:ff9b::808:808"]


@pytest.mark.parametrize("address", PRIVATE)
def test_private_and_reserved_addresses_are_refused(address: str) -> None:
    assert Reach().refuses(ip_address(address))


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_not(address: str) -> None:
    assert not Reach().refuses(ip_address(address))


@pytest.mark.parametrize(
    ("address", "refused"),
    [
        ("10.20.3.4", False),
        ("::ffff:10.20.3.4", False),
        ("10.21.0.1", True),
        ("::ffff:10.21.0.1", True),
        ("fd00:1::5", False),
        ("fd00:2::5", True),
        ("127.0.0.1", True),
        ("93.184.216.34", True),  # of a closed network
        ("93.184.217.1", False),
    ],
)
def test_an_operator_opens_and_closes_networks(address: str, refused: bool) -> None:
    settings = NoticesSettings.model_validate(
        {"networks": ["10.20.0.0/16", "fd00:1::/32"], "closed": ["93.184.216.0/24"]}
    )
    assert reach_of(settings).refuses(ip_address(address)) == refused


@pytest.mark.parametrize(
    "network",
    [
        "0.0.0.0/0",
        "::/0",
        "169.254.0.0/16",
        "169.254.169.254/32",
        "fe80::/64",
        "224.0.0.0/8",
        "10.0.0.1/8",
        "x",
    ],
)
def test_a_network_without_webhooks_cannot_be_opened(network: str) -> None:
    with pytest.raises(ValueError, match=r"network|addresses"):
        NoticesSettings.model_validate({"networks": [network]})


def resolving(*texts: str) -> Any:
    def resolve(host: str, port: int, **more: Any) -> list[Any]:
        if not texts:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (text, port)) for text in texts]

    return resolve


HTTPS = target_of("https://hooks.example.org/x")
HTTP = target_of("http://hooks.example.org/x")


def test_a_name_is_as_good_as_the_worst_of_its_addresses() -> None:
    found = addresses_of(HTTPS, Reach(), resolve=resolving("93.184.216.34", "2606:2800:220:1::1"))
    assert found == (ip_address("93.184.216.34"), ip_address("2606:2800:220:1::1"))
    for bad in ("127.0.0.1", "169.254.169.254", "::1", "fe80::1%eth0"):
        with pytest.raises(NotThere, match="at a private or reserved address"):
            addresses_of(HTTPS, Reach(), resolve=resolving("93.184.216.34", bad))


def test_a_name_without_an_address_is_told() -> None:
    with pytest.raises(NotFound, match=r"`hooks\.example\.org` has no address"):
        addresses_of(HTTPS, Reach(), resolve=resolving())


def test_plain_http_is_for_stated_networks_alone() -> None:
    reach = reach_of(NoticesSettings.model_validate({"networks": ["10.20.0.0/16"]}))
    assert addresses_of(HTTP, reach, resolve=resolving("10.20.0.1")) == (ip_address("10.20.0.1"),)
    for elsewhere in ("93.184.216.34", "64:ff9b::808:808"):
        with pytest.raises(NotThere, match="begins with `https://`"):
            addresses_of(HTTP, reach, resolve=resolving("10.20.0.1", elsewhere))
