"""Behind a proxy, and with an authority of one's own: both imitated, on this machine."""

import functools
import json

import pytest

from tasks.shared import network
from tasks.shared.operations import apt, certificates
from tests.imitation_network import NAME
from tests.imitation_network import network as imitated

from . import deploys, standin
from .operations import CHANGES, NOTHING, run_operation

VERSION = "0.30.0"
RELEASE = ("--data", f"vllm_version={VERSION}", "--data", "prefill_order=upstream")


@pytest.fixture(scope="module")
def imitation(tmp_path_factory):
    """A server of wheels that only the proxy can reach."""
    name, content = standin.wheel(VERSION)
    files = {"/": f'<a href="/{name}">{name}</a>'.encode(), f"/{name}": content}
    with imitated(files, tmp_path_factory.mktemp("network")) as found:
        yield found


@pytest.fixture(scope="module")
def host(standin_host, imitation):
    """A host that has nothing of that release, and knows of no proxy; the same afterwards."""
    remove = "cd /opt/vllm && rm -rf releases/0.30.0-* cache/downloads/wheels/*"
    deploys.on_host(remove, host=standin_host)
    # What fails here always does; pip names the cause only of what it tries again.
    deploys.on_host("echo 'PIP_RETRIES=\"1\"' >>/etc/environment", host=standin_host)
    before = deploys.hostkit_state(standin_host)
    yield standin_host
    deploys.on_host("sed -i /^PIP_RETRIES/d /etc/environment", host=standin_host)
    assert told(standin_host).error == 0
    deploys.on_host(remove, host=standin_host)
    assert deploys.hostkit_state(standin_host) == before


def told(host, *way):
    """Tell the host its way out; what that changed."""
    return deploys.deploy_json(*way, host=host, file="tasks/network.py")


def test_a_release_is_built_with_the_proxy_and_the_authority_and_not_without(host, imitation):
    wheels = ("--data", f'find_links=["https://{NAME}/"]')
    proxy = ("--data", f"proxy={imitation.proxy}")
    authority = ("--data", f"ca_certificates={imitation.authority}")

    def build(*way):
        return deploys.pyinfra("tasks/build_vllm.py", "-y", *RELEASE, *wheels, *way, host=host)

    for way, reason in (((), "not known"), (proxy, "CERTIFICATE_VERIFY_FAILED")):
        told(host, *way)
        done = build(*way)
        assert done.returncode == 1
        assert reason in done.stderr
        assert "Traceback" not in done.stderr
    assert str(told(host, *proxy, *authority)) == "2 changed, 1 unchanged, 0 failed"
    done = build(*proxy, *authority)
    assert done.returncode == 0, done.stderr[-2000:]
    manifest = deploys.on_host(f"cat /opt/vllm/releases/{VERSION}-*/manifest.json", host=host)
    assert json.loads(manifest)["wheel"]["version"] == VERSION

    assert str(told(host, *proxy, *authority)) == "0 changed, 3 unchanged, 0 failed"
    line = imitation.authority.read_text().splitlines()[3]
    assert deploys.on_host(f"grep -cxF {line} {network.BUNDLE}", host=host) == "1"
    assert told(host).success == 2
    left = f"grep -cxF {line} {network.BUNDLE}; ls {network.ENVIRONMENT} {network.CERTIFICATES}"
    assert deploys.on_host(f"{left} 2>/dev/null; true", host=host) == "0"


@pytest.mark.campaign
def test_authorities_that_a_killed_deploy_left_half_way_are_finished(host, imitation):
    wanted = network.certificates(str(imitation.authority))
    run = functools.partial(run_operation, host, certificates.trusted, path=network.CERTIFICATES)
    assert run(certificates=wanted) == CHANGES
    assert run(certificates=wanted) == NOTHING
    deploys.on_host(
        f"cd {network.CERTIFICATES} && mkdir /srv/aside && mv *.crt /srv/aside && "
        "update-ca-certificates >/dev/null 2>&1; mv /srv/aside/* . && rmdir /srv/aside",
        host=host,
    )
    assert run(certificates=wanted) == CHANGES
    assert run(certificates={}) == CHANGES
    assert run(certificates={}) == NOTHING


def test_our_apt_asks_the_proxy(host, imitation):
    deploys.on_host("dpkg --purge hello 2>/dev/null; apt-get clean", host=host)
    told(host, "--data", f"proxy={imitation.proxy}")
    imitation.asked.clear()
    assert run_operation(host, apt.installed, packages=["hello"]) == CHANGES
    assert imitation.asked
    assert deploys.on_host("hello", host=host) == "Hello, world!"
