#!/bin/sh
# Succeeds if this version of k3s is installed and, where there is systemd, runs.
set -eu

found=$(k3s --version)
case "$found" in
  *" $HOST_BUNDLE_VERSION "*) ;;
  *) echo "k3s is not $HOST_BUNDLE_VERSION but: $found" && exit 1 ;;
esac
[ ! -d /run/systemd/system ] || systemctl is-active k3s-agent
