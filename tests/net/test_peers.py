"""Two daemons on one network find each other and stay linked through what networks do: real mDNS, real TLS."""

from __future__ import annotations

import pytest
from tests.net.conftest import LabMaker
from tests.net.paired import linked, pair, until

pytestmark = pytest.mark.netns


def test_two_daemons_that_are_paired_find_each_other_and_link(lab: LabMaker) -> None:
    with lab("laptop", "desktop") as net:
        pair(net, "laptop", "desktop")
        with net["laptop"].daemon(), net["desktop"].daemon():
            until(lambda: linked(net["laptop"]) == {"desktop"} and linked(net["desktop"]) == {"laptop"})
            assert "desktop: linked at 10.77.0.2:" in net["laptop"].hhd("peer", "list").stdout
