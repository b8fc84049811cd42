# node.sh FOLDER RECORD INIT NAME SHARED…: PID 1 of a node, in new namespaces; nodes.py runs it.
#
# The root folder is that of this machine below a layer in memory, which takes what is written: all programs are where
# they are, and no pod can change the machine, whatever of its node it mounts. What is large, or is to be read later, is in
# FOLDER. SHARED are folders and files to show under their own paths, wherever they are mounted.
set -eu
folder=$1 record=$2 init=$3 name=$4
shift 4
# proc(5), still that of the machine: a shell's `read` is no child, so this is its own process id and start time there.
read -r stat < /proc/self/stat
shared=$*
set -- $stat
echo "$1 ${22}" > "$record.new"
mv "$record.new" "$record"

mount -t tmpfs memory "$folder/memory"
mkdir "$folder/memory/upper" "$folder/memory/work"
mount -t overlay root -o "lowerdir=/,upperdir=$folder/memory/upper,workdir=$folder/memory/work" "$folder/root"
cd "$folder/root"
mount -t proc proc proc
mount --rbind /sys sys
mount --rbind /dev dev
mount -t tmpfs run run
mount -t tmpfs tmp tmp
show() {
  if [ -d "$1" ]; then
    mkdir -p ".$2"
  else
    mkdir -p ".${2%/*}" && { [ -e ".$2" ] || : > ".$2"; }
  fi
  mount --bind "$1" ".$2"
}
for each in $shared; do
  show "$each" "$each"
done
for each in var/lib/kubelet var/lib/containerd var/lib/cni var/log etc/cni/net.d; do
  mkdir -p "$folder/$each"
  show "$folder/$each" "/$each"
done
show "$folder/resolv.conf" "$(realpath /etc/resolv.conf)"
# What a kubelet sets for the whole machine: it finds it set.
for each in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \
  kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
  mkdir -p "$folder/sysctl/${each%/*}"
  echo "${each#*=}" > "$folder/sysctl/${each%=*}"
  mount --bind "$folder/sysctl/${each%=*}" "proc/sys/${each%=*}"
done
mkdir -p run/old
pivot_root . run/old
umount -l /run/old
mkdir -p /run/netns
mount --make-rshared /

hostname "$name"
ip link set lo up
echo 1 > /proc/sys/net/ipv4/ip_forward
echo 1 > /proc/sys/net/ipv4/conf/all/route_localnet
: > "$folder/ready"
exec "$init"
