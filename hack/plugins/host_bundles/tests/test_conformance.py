"""What RukPak demands of every format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from rukpak.conformance import FormatContract
from rukpak.plugins import Reason
from rukpak_host_bundles import HostBundlesFormat

IMAGE = f"quay.io/example/rukpak@sha256:{'0' * 64}"
BUNDLE = b"""
apiVersion: hosts.rukpak.io/v1
kind: HostBundle
name: k3s-agent
version: v1.31.4+k3s1
hosts: [{id: ubuntu, versionIDs: ["24.04"]}, {id: flatcar}]
architectures: [amd64]
env:
  MAX_PODS: {type: integer, default: 110}
  DEBUG: {type: boolean, default: false, description: writes more to the log}
"""
SCRIPTS = {"host-bundle.yaml": BUNDLE, "install.sh": b"#!/bin/sh\ntrue\n", "uninstall.sh": b"#!/bin/sh\ntrue\n"}
EXTENSION = {
    "host-bundle.yaml": BUNDLE + b"type: Sysext\n",
    "sysext/usr/lib/extension-release.d/extension-release.k3s-agent": b"ID=_any\n",
    "sysext/usr/bin/tool": b"\x7fELF",
}


class TestHostBundlesFormat(FormatContract):
    plugin = HostBundlesFormat
    content: ClassVar[Sequence[Mapping[str, bytes]]] = [
        SCRIPTS,
        {"host-bundle.yaml": BUNDLE, "install.sh": b"true\n", "bin/k3s": bytes(range(256)) * 6000},
        EXTENSION,
    ]
    good_config: ClassVar = [
        {"image": IMAGE, "allowUnverified": True, "env": {"MAX_PODS": 20, "DEBUG": True}},
        {"image": IMAGE, "digest": f"sha256:{'1' * 64}", "maxUnavailable": 3, "maxFailures": 2, "allowReboot": True},
        {"image": "python:3.13", "allowUnverified": True, "nodeSelector": {"example.com/gpu": ""}},
        {
            "image": IMAGE,
            "imageVolume": IMAGE,
            "drain": {},
            "tolerations": [{"operator": "Exists", "effect": "NoSchedule"}],
        },
    ]
    bad_config: ClassVar = [
        ({}, "spec.config.image: missing"),
        ({"image": "python:3.13"}, "spec.config.image: must have a digest"),
        ({"image": "Python"}, "spec.config.image: "),
        ({"image": IMAGE, "digest": "1"}, "spec.config.digest: "),
        ({"image": IMAGE, "imageVolume": "quay.io/example/bundle:v1"}, "spec.config.imageVolume: "),
        ({"image": IMAGE, "maxFailures": 0}, "spec.config.maxFailures: "),
        ({"image": IMAGE, "maxUnavailable": True}, "spec.config.maxUnavailable: "),
        ({"image": IMAGE, "nodeSelector": {"-": ""}}, "spec.config.nodeSelector.-: "),
        ({"image": IMAGE, "tolerations": [{"effect": "None"}]}, "spec.config.tolerations[0].effect: "),
        ({"image": IMAGE, "env": {"A": [1]}}, "spec.config.env.A: "),
        ({"image": IMAGE, "drain": True}, "spec.config.drain: "),
        ({"image": IMAGE, "drain": {"timeoutSeconds": "10m"}}, "spec.config.drain.timeoutSeconds: "),
        ({"image": IMAGE, "hooks": []}, "spec.config.hooks: "),
    ]
    bad_content: ClassVar = [
        ({"install.sh": b"true"}, Reason.NO_CONTENT),
        ({"host-bundle.yaml": BUNDLE}, Reason.INVALID_BUNDLE),
        ({**SCRIPTS, "host-bundle.yaml": b"[]"}, Reason.INVALID_BUNDLE),
        ({**SCRIPTS, "host-bundle.yaml": BUNDLE + b"---\n" + BUNDLE}, Reason.INVALID_BUNDLE),
        ({**SCRIPTS, "host-bundle.yaml": BUNDLE + b"type: Other\n"}, Reason.INVALID_BUNDLE),
        ({**SCRIPTS, "host-bundle.yaml": BUNDLE + b"reboot: Always\n"}, Reason.INVALID_CONFIG),
        ({**SCRIPTS, "host-bundle.yaml": BUNDLE.replace(b"MAX_PODS", b"PODS")}, Reason.INVALID_CONFIG),
        ({**SCRIPTS, "large": b"x" * (5 << 20)}, Reason.RENDER_LIMIT_EXCEEDED),
    ]
