#!/bin/sh
# Prints what tells the CPUs, caches, NUMA nodes, GPUs, network devices and the kernel of this
# node, as lines that `tierc facts import` reads from a log.  Reads files, changes nothing.
#
#   NODE_NAME   name of the node (needed)
#   TIERC_ROOT  where the root of the node is mounted: its sys/ and proc/ (default /host)
#   TIERC_WORK  a directory to work in (default /tmp)
#   KUBELET_ROOT  the kubelet's directory on the node (default /var/lib/kubelet); looked into only
#               where it is mounted below TIERC_ROOT
#
# With the argument `hold` the script then waits, so that the log stays.
#
# POSIX sh with the tools of busybox.  A program per file would take minutes on a large machine:
# one-line attributes are copied by the shell itself.

set -u
LC_ALL=C
export LC_ALL
umask 077

node=${NODE_NAME:-}
root=${TIERC_ROOT:-/host}
root=${root%/}
work=${TIERC_WORK:-/tmp}/tierc-facts.$$
out=$work/tree/root

WIDTH=3000   # characters of data on a line; container runtimes cut lines at 16,384
MAX_CPUS=8192
MAX_DEVICES=4096
MAX_PIDS=100000
MAX_BYTES=6000000

hold() {
    [ "$1" = hold ] || exit "$2"
    while :; do
        sleep 3600 &
        wait $!
    done
}

give_up() {
    printf 'tierc-facts1 %s error %s\n' "${node:-?}" "$1"
    rm -rf "$work"
    hold "$mode" 1
}

# failed ACT PATH: remember that the reader will fail here too, and why.
failed() {
    case $2 in
    *[!A-Za-z0-9/._:@,+=-]*) return 0 ;;
    esac
    number=22
    [ -r "$root$2" ] || number=13
    printf ',\n    ["%s", "%s", %s]' "$1" "$2" "$number" >>"$work/errors"
}

# one PATH: copy an attribute of one line; its directory is there already.
one() {
    [ -f "$root$1" ] || return 0
    if [ ! -r "$root$1" ]; then
        failed read "$1"
    elif IFS= read -r line <"$root$1" 2>/dev/null; then
        printf '%s\n' "$line" >"$out$1"
    elif [ -n "$line" ]; then
        printf '%s' "$line" >"$out$1"
    elif ! cat "$root$1" >"$out$1" 2>/dev/null; then
        rm -f "$out$1"
        failed read "$1"
    fi
}

# some DIRECTORY NAME...: copy attributes of one line.
some() {
    directory=$1
    shift
    [ -d "$root$directory" ] || return 0
    [ -d "$out$directory" ] || mkdir -p "$out$directory"
    for name in "$@"; do
        one "$directory/$name"
    done
}

# either DIRECTORY NAME...: copy the first of several attributes that is there.
either() {
    directory=$1
    shift
    for name in "$@"; do
        if [ -f "$root$directory/$name" ]; then
            one "$directory/$name"
            return 0
        fi
    done
}

# filtered PATH COMMAND...: copy what a command leaves of a file; nothing if it fails.
filtered() {
    [ -f "$root$1" ] || return 0
    path=$1
    shift
    if [ ! -r "$root$path" ]; then
        failed read "$path"
        return 0
    fi
    mkdir -p "$out${path%/*}"
    "$@" <"$root$path" >"$out$path" 2>/dev/null || [ -s "$out$path" ] || rm -f "$out$path"
}

# link PATH: copy a symbolic link as one.
link() {
    [ -L "$root$1" ] && target=$(readlink "$root$1") || return 0
    mkdir -p "$out${1%/*}"
    [ -L "$out$1" ] || ln -s "$target" "$out$1"
}

# present PATH: the reader only asks whether there is such a file or directory.
present() {
    if [ -d "$root$1" ]; then
        mkdir -p "$out$1"
    elif [ -e "$root$1" ]; then
        mkdir -p "$out${1%/*}"
        : >"$out$1"
    fi
}

# caches DIRECTORY: the last level in full, of the others only which they are.
caches() {
    last=0
    for index in "$root$1"/index[0-9]*; do
        [ -d "$index" ] || continue
        line=
        one "$1/${index##*/}/type"
        type=$line
        line=
        one "$1/${index##*/}/level"
        [ "$type" != Instruction ] || continue
        case $line in
        [0-9]) [ "$line" -le "$last" ] || last=$line ;;
        esac
    done
    for index in "$root$1"/index[0-9]*; do
        line=
        [ -r "$index/level" ] && IFS= read -r line <"$index/level"
        [ "$line" = "$last" ] || continue
        some "$1/${index##*/}" size id
        either "$1/${index##*/}" shared_cpu_list shared_cpu_map
    done
}

cpus() {
    cpu=/sys/devices/system/cpu
    some $cpu online possible present isolated nohz_full
    count=0
    for path in "$root$cpu"/cpu[0-9]*; do
        [ -d "$path" ] && count=$((count + 1))
    done
    [ $count -le $MAX_CPUS ] || give_up "more than $MAX_CPUS CPUs"
    # All directories at once.
    (
        cd "$root$cpu" 2>/dev/null || exit 0
        for path in cpu[0-9]* cpu[0-9]*/topology cpu[0-9]*/cache/index[0-9]* cpu[0-9]*/cpufreq \
            cpu[0-9]*/acpi_cppc cpu[0-9]*/regs/identification; do
            [ -d "$path" ] && printf '%s\n' "$path"
        done
    ) | (cd "$out$cpu" 2>/dev/null && xargs mkdir -p)
    for path in "$root$cpu"/cpu[0-9]*; do
        [ -d "$path" ] || continue
        here=$cpu/${path##*/}
        one "$here/online"
        one "$here/cpu_capacity"
        if [ -d "$path/topology" ]; then
            either "$here/topology" core_cpus_list core_cpus thread_siblings_list thread_siblings
            either "$here/topology" package_cpus_list package_cpus core_siblings_list core_siblings
            either "$here/topology" die_cpus_list die_cpus
            either "$here/topology" cluster_cpus_list cluster_cpus
            some "$here/topology" physical_package_id die_id cluster_id
        fi
        caches "$here/cache"
        some "$here/cpufreq" cpuinfo_max_freq base_frequency
        some "$here/acpi_cppc" highest_perf
        some "$here/regs/identification" midr_el1
    done
    for path in "$root"/sys/devices/cpu "$root"/sys/devices/cpu_*; do
        [ -d "$path" ] && some "${path#"$root"}" cpus
    done
}

numa() {
    numa=/sys/devices/system/node
    some $numa online
    for path in "$root$numa"/node[0-9]*; do
        [ -d "$path" ] || continue
        here=$numa/${path##*/}
        some "$here" cpulist cpumap distance
        filtered "$here/meminfo" grep MemTotal
    done
}

# function_at PATH: what is asked of the PCI function (or other device) there.
function_at() {
    some "$1" class vendor device numa_node local_cpulist local_cpus
    link "$1/physfn"
}

devices() {
    count=0
    for path in "$root"/sys/bus/pci/devices/*; do
        class=
        [ -r "$path/class" ] && IFS= read -r class <"$path/class"
        case $class in
        0x02* | 0x03* | 0x12*) ;;
        *) continue ;;
        esac
        count=$((count + 1))
        [ $count -le $MAX_DEVICES ] || give_up "more than $MAX_DEVICES devices"
        link "${path#"$root"}"
        real=$(cd -P "$path" 2>/dev/null && pwd -P) || continue
        case $real in
        "$real_root"/sys/devices/*) function_at "${real#"$real_root"}" ;;
        esac
    done
    for class in net infiniband; do
        for path in "$root/sys/class/$class"/*; do
            [ -e "$path/device" ] || continue # virtual
            count=$((count + 1))
            [ $count -le $MAX_DEVICES ] || give_up "more than $MAX_DEVICES devices"
            link "${path#"$root"}"
            real=$(cd -P "$path" 2>/dev/null && pwd -P) || continue
            case $real in
            "$real_root"/sys/*) link "${real#"$real_root"}/device" ;;
            esac
            real=$(cd -P "$path/device" 2>/dev/null && pwd -P) || continue
            case $real in
            "$real_root"/sys/devices/*) ;;
            *) continue ;;
            esac
            # The device may be a part of the PCI function, such as virtio0 of 0000:00:03.0.
            function_at "${real#"$real_root"}"
            while [ "$real" != "$real_root/sys/devices" ]; do
                case ${real##*/} in
                *:*:*.[0-7])
                    function_at "${real#"$real_root"}"
                    break
                    ;;
                esac
                real=${real%/*}
            done
        done
    done
    for path in "$root"/proc/driver/nvidia/gpus/*; do
        [ -d "$path" ] || continue
        here=${path#"$root"}
        filtered "$here/information" grep -E '^(Model|GPU UUID|Bus Location)'
        filtered "$here/numa_status" grep -E '^Node'
    done
}

# cpu_options: of a command line only what concerns CPUs; the rest may be nobody's business.
cpu_options() {
    tr ' ' '\n' | grep -E \
        '^(isolcpus|nohz_full|rcu_nocbs|threadirqs|nosmt|maxcpus|nr_cpus|irqaffinity)(=|$)' |
        tr '\n' ' '
    echo
}

kernel() {
    filtered /proc/cpuinfo grep -v -i '^Serial'
    filtered /proc/cmdline cpu_options
    some /proc version
    some /proc/sys/kernel osrelease version arch
    some /proc/xen capabilities
    some /sys/kernel realtime
    present /sys/kernel/btf/vmlinux
    some /sys/kernel/sched_ext state
    some /sys/kernel/sched_ext/root ops
    some /sys/hypervisor type
    some /sys/class/dmi/id sys_vendor product_name
    # Of the mounts of the node only those of cgroups; /proc/mounts itself is those of this pod.
    if [ -r "$root/proc/1/mounts" ]; then
        mkdir -p "$out/proc"
        grep -E '^[^ ]+ [^ ]+ (cgroup2?|cpuset) ' "$root/proc/1/mounts" >"$out/proc/mounts" || :
    fi
}

# pods_at PATH: a control group that may be that of all pods, and whether there are pods in it.
pods_at() {
    [ -d "$root$1" ] || return 0
    present "$1"
    found=0
    for group in "$root$1"/*pod[0-9a-f]* "$root$1"/*burstable* "$root$1"/*besteffort*; do
        [ -d "$group" ] || continue
        case ${group##*/} in
        *burstable* | *besteffort*)
            present "${group#"$root"}"
            for pod in "$group"/*pod[0-9a-f]*; do
                [ -d "$pod" ] && present "${pod#"$root"}" && break
            done
            ;;
        *)
            # Whether there are pods, not which.
            [ $found -lt 2 ] || continue
            found=$((found + 1))
            present "${group#"$root"}"
            ;;
        esac
    done
}

cgroups() {
    present /sys/fs/cgroup/cgroup.controllers
    present /sys/fs/cgroup/unified/cgroup.controllers
    for hierarchy in /sys/fs/cgroup /sys/fs/cgroup/unified /sys/fs/cgroup/systemd \
        /sys/fs/cgroup/cpuset; do
        # The usual places, and those below a root of their own (kind, the setting cgroupRoot).
        for group in "$root$hierarchy"/kubepods "$root$hierarchy"/kubepods.slice \
            "$root$hierarchy"/*/kubepods "$root$hierarchy"/*.slice/*-kubepods.slice \
            "$root$hierarchy"/*/*/kubepods "$root$hierarchy"/*.slice/*.slice/*-kubepods.slice; do
            [ -d "$group" ] && pods_at "${group#"$root"}"
        done
    done
}

OPTIONS='config|config-dir|root-dir|cgroup-driver|cgroup-root|cgroups-per-qos'
OPTIONS="$OPTIONS|container-runtime-endpoint|cpu-manager-policy|cpu-manager-policy-options"
OPTIONS="$OPTIONS|reserved-cpus|topology-manager-policy"
SETTINGS='kind|apiVersion|cgroupDriver|cgroupRoot|cgroupsPerQOS|containerRuntimeEndpoint'
SETTINGS="$SETTINGS|cpuManagerPolicy|cpuManagerPolicyOptions|reservedSystemCPUs"
SETTINGS="$SETTINGS|topologyManagerPolicy"

# arguments: of a command line, words ended by NUL, the program and the options that tell of CPUs.
arguments() {
    tr '\0' '\n' | awk -v options="^--?($OPTIONS)\$" '
        NR == 1 || wanted { print; wanted = 0; next }
        NR == 2 { print "..." }
        { name = $0; sub(/=.*/, "", name) }
        name ~ options { print; wanted = name == $0 && name !~ /cgroups-per-qos/ }
    ' | tr '\n' '\0'
}

# settings: of a configuration file the settings that tell of CPUs.
settings() {
    awk -v keys="^\"?($SETTINGS)\"?:" '
        NR == 1 && /^[ \t]*[{]/ { json = 1 }
        json { text = text $0 "\n"; next }
        /^[^ \t#-]/ { keep = $0 ~ keys }
        keep { print }
        END {
            # A kubeconfig, which may be where the settings are, holds keys and tokens.
            if (json && text ~ /"kind"[ \t\n]*:[ \t\n]*"KubeletConfiguration"/ &&
                text !~ /staticPodURLHeader|"staticPodURL"/) printf "%s", text
        }
    '
}

# assignments: of a file of variables the kubelet's options that tell of CPUs.
assignments() {
    awk -v options="^--?($OPTIONS)\$" '
        /^(export +)?KUBELET_(KUBEADM|EXTRA)_ARGS=/ {
            name = $0
            sub(/=.*/, "", name)
            sub(/^[^=]*=/, "")
            gsub(/["\047]/, " ")
            kept = ""
            wanted = 0
            for (i = 1; i <= NF; i++) {
                option = $i
                sub(/=.*/, "", option)
                if (wanted && $i !~ /^-/) kept = kept " " $i
                wanted = 0
                if (option ~ options) {
                    kept = kept " " $i
                    wanted = option == $i && option !~ /cgroups-per-qos/
                }
            }
            print name "=\"" substr(kept, 2) "\""
        }
    '
}

# A kubelet, or a program that holds one, is told by the name of its process.
processes() {
    count=0
    for path in "$root"/proc/[0-9]*; do
        count=$((count + 1))
        [ $count -le $MAX_PIDS ] || break
        comm=
        [ -r "$path/comm" ] && IFS= read -r comm <"$path/comm" 2>/dev/null
        case $comm in
        kubelet | kubelite | k3s-server | k3s-agent) ;;
        *) continue ;;
        esac
        here=${path#"$root"}
        some "$here" comm
        filtered "$here/status" grep '^NSpid'
        [ "$comm" = kubelet ] && filtered "$here/cmdline" arguments
    done
}

kubelet() {
    for here in "${KUBELET_ROOT:-/var/lib/kubelet}" /var/snap/microk8s/common/var/lib/kubelet \
        /var/lib/k0s/kubelet; do
        [ -d "$root$here" ] || continue
        present "$here"
        present "$here/pods"
        filtered "$here/cpu_manager_state" cat
        filtered "$here/config.yaml" settings
        filtered "$here/instance-config.yaml" settings
    done
    for path in /etc/kubernetes/kubelet.conf /etc/kubernetes/kubelet/config.json \
        /etc/kubernetes/kubelet/kubelet-config.json /etc/kubernetes/kubelet/config \
        /etc/kubernetes/kubelet.yaml /home/kubernetes/kubelet-config.yaml \
        /etc/default/kubeletconfig.json /var/lib/k0s/kubelet-config.yaml; do
        filtered "$path" settings
    done
    for here in /etc/kubernetes/kubelet.conf.d /etc/openshift/kubelet.conf.d \
        /etc/kubernetes/kubelet/config.json.d /var/lib/rancher/k3s/agent/etc/kubelet.conf.d \
        /var/lib/rancher/rke2/agent/etc/kubelet.conf.d; do
        for path in "$root$here"/*.conf; do
            [ -f "$path" ] && filtered "${path#"$root"}" settings
        done
    done
    filtered /var/snap/microk8s/current/args/kubelet grep -E "^--?($OPTIONS)(=| |\$)"
    for path in /var/lib/kubelet/kubeadm-flags.env /etc/default/kubelet /etc/sysconfig/kubelet; do
        filtered "$path" assignments
    done
    for path in /var/lib/rancher/k3s /var/lib/rancher/k3s/server /var/lib/rancher/rke2 \
        /var/snap/microk8s/current /var/snap/microk8s/current/var/lock/clustered.lock; do
        present "$path"
    done
    for path in /run/containerd/containerd.sock /run/crio/crio.sock /run/cri-dockerd.sock \
        /run/k3s/containerd/containerd.sock /var/snap/microk8s/common/run/containerd.sock \
        /run/k0s/containerd.sock; do
        present "$path"
    done
}

[ $# -gt 0 ] && mode=$1 || mode=once
# A pod that is ended, at whatever moment, has not failed.
[ "$mode" != hold ] || trap 'exit 0' TERM INT
case $node in
'') give_up 'NODE_NAME is not set' ;;
*[!a-z0-9.-]*) give_up 'NODE_NAME is not the name of a node' ;;
esac
for program in awk base64 cat fold grep gzip ln mkdir readlink rm sha256sum tar tr uname xargs; do
    command -v "$program" >/dev/null 2>&1 || give_up "the image has no $program"
done
mkdir -p "$out" || give_up "cannot write in ${TIERC_WORK:-/tmp}"
trap 'rm -rf "$work"' EXIT
: >"$work/errors"
[ -d "$root/sys/devices/system/cpu" ] || give_up "there is no sys/devices/system/cpu below $root"
real_root=$(cd -P "$root/" && pwd -P)
real_root=${real_root%/}

cpus
numa
devices
kernel
cgroups
processes
kubelet

arch=$(uname -m)
{
    printf '{\n  "format": "tierc-bundle-1",\n  "live": true,\n'
    printf '  "arch": "%s",\n  "node": "%s",\n' "$arch" "$node"
    printf '  "errors": [\n'
    sed '1s/^,//' "$work/errors"
    printf '\n  ]\n}\n'
} >"$work/tree/tierc-bundle.json"

payload=$work/payload
{
    (cd "$work/tree" && tar -cf - tierc-bundle.json root) 2>/dev/null || : >"$work/failed"
} | gzip -9 >"$payload"
[ ! -e "$work/failed" ] || give_up "cannot pack the files: is ${TIERC_WORK:-/tmp} full?"
rm -rf "$work/tree"
[ "$(wc -c <"$payload")" -le $MAX_BYTES ] || give_up "the facts are larger than $MAX_BYTES bytes"
sum=$(sha256sum "$payload")
sum=${sum%% *}
{
    base64 "$payload" | tr -d '\n' | fold -w $WIDTH
    echo
} | grep . >"$work/lines"
count=$(grep -c . "$work/lines")
number=0
while IFS= read -r line; do
    number=$((number + 1))
    printf 'tierc-facts1 %s %s %s %s %s\n' "$node" "$sum" $number "$count" "$line"
done <"$work/lines"
rm -rf "$work"
hold "$mode" 0
