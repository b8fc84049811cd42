#!/bin/sh
# Removes what install.sh has installed; the token and the data of the node stay.
set -eu

if [ -d /run/systemd/system ]; then
  systemctl disable --now k3s-agent || true # it may be gone already
fi
rm -f /etc/systemd/system/k3s-agent.service /etc/rancher/k3s/config.yaml
for bin in /usr/local/bin /opt/bin; do
  for name in kubectl crictl ctr k3s; do
    if [ -w "$bin" ]; then rm -f "$bin/$name"; fi
  done
done
