#!/bin/sh
# Installs k3s as an agent where its own installer puts it. Whatever was there before, it ends with the same files.
set -eu

if ! [ -r "$K3S_TOKEN_FILE" ]; then
  echo "$K3S_TOKEN_FILE: missing; write the token of the server to it, or set K3S_TOKEN_FILE"
  exit 1
fi

bin=/usr/local/bin
[ -w "$bin" ] || bin=/opt/bin # as on Flatcar, where /usr is read-only
mkdir -p "$bin" /etc/rancher/k3s /etc/systemd/system

# Renamed into place: a program that is running cannot be written, and one that is half written must not run.
cp bin/k3s "$bin/k3s.new"
chmod 755 "$bin/k3s.new"
mv "$bin/k3s.new" "$bin/k3s"
for name in kubectl crictl ctr; do
  ln -sf k3s "$bin/$name"
done

cat > /etc/rancher/k3s/config.yaml <<END
server: "$K3S_URL"
token-file: "$K3S_TOKEN_FILE"
kubelet-arg: ["max-pods=$MAX_PODS"]
END
sed "s|@BIN@|$bin|" k3s-agent.service > /etc/systemd/system/k3s-agent.service

if [ -d /run/systemd/system ]; then # see sd_booted(3)
  systemctl daemon-reload
  systemctl enable k3s-agent
  systemctl restart k3s-agent
fi
