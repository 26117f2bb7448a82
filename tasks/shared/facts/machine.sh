# Everything that the checks of a host look at, read in one go; changes nothing and never fails.
# In: $MODEL and $KV (folders), $PORTS, $PRIVATE (files), $CUDA_HOME, $WSL2 (yes or empty).
# Out: name=value where the value is one line of ASCII, name:base64 for everything else.
export LC_ALL=C PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"

say() { printf '%s=%s\n' "$1" "$2"; }
send() {
    printf '%s:' "$1"
    base64 -w 0
    echo
}
first() {
    for file; do
        if [ -x "$file" ]; then
            echo "$file"
            return
        fi
    done
}
# A process as its control group, its number and its command line, for the reader to judge.
process() {
    [ -r "$1/cmdline" ] || return
    { tr '\n' ' ' <"$1/cgroup"; printf '\n%s\n' "${1#/proc/}"; cat "$1/cmdline"; } 2>/dev/null
}
# Where a folder that need not exist would really lie, and the KiB of its file system: all, free.
place() {
    real=$(readlink -m -- "$2")
    there=$real
    while [ ! -e "$there" ]; do there=$(dirname -- "$there"); done
    { echo "$1"; echo "$real"; df -k --output=size,avail -- "$there" 2>/dev/null | tail -n 1; } |
        send place
}

say pid1 "$(cat /proc/1/comm 2>/dev/null)"
say arch "$(uname -m)"
say kernel "$(uname -r)"
say user "$(id -u)"
say now "$(date +%s)"
(. /etc/os-release && say os "$ID $VERSION_ID")
say python "$(/usr/bin/python3 -ISV 2>/dev/null | cut -d ' ' -f 2)"
say glibc "$(getconf GNU_LIBC_VERSION 2>/dev/null | cut -d ' ' -f 2)"
say unit "$(systemctl is-active vllm.service 2>/dev/null)"
cat /proc/meminfo | send meminfo
cat /proc/mounts | send mounts
place model "$MODEL"
place kv "$KV"
place releases /opt/vllm
place shm /dev/shm
dpkg-query -W -f '${db:Status-Abbrev} ${Package} ${Version}\n' \
    '*nvidia*' '*cuda*' 'xserver-xorg-video-nv*' 'libnvcuvid*' 'libnvoptix*' 2>/dev/null |
    send packages

grep -sH "^[^#]*://" /etc/apt/sources.list /etc/apt/sources.list.d/*.list \
    /etc/apt/sources.list.d/*.sources | send apt_sources

smi=$(first /usr/lib/wsl/lib/nvidia-smi /usr/bin/nvidia-smi)
say smi "$smi"
if [ -n "$smi" ]; then
    fields=index,name,compute_cap,memory.total,memory.free,pcie.link.width.current
    timeout 20 "$smi" --query-gpu="$fields,pcie.link.width.max,driver_version" \
        --format=csv,noheader,nounits 2>&1 | send gpus
fi
ls -d /usr/lib/x86_64-linux-gnu/libcuda.so* 2>/dev/null | send libcuda
if [ -x "$CUDA_HOME/bin/nvcc" ]; then "$CUDA_HOME/bin/nvcc" --version 2>&1 | send nvcc; fi

for port in $PORTS; do
    hex=$(printf %04X "$port")
    grep -hs ":$hex [0-9A-F]*:0000 0A " /proc/net/tcp /proc/net/tcp6 |
        while read -r _ _ _ _ _ _ _ _ _ inode _; do
            echo "$port" | send listening
            find /proc/[0-9]*/fd -lname "socket:\\[$inode\\]" 2>/dev/null
        done | while read -r line; do
            case $line in
                /proc/*) { echo "$port"; process "${line%/fd/*}"; } | send listener ;;
                *) echo "$line" ;;
            esac
        done
done
grep -lsazE '^(.*/)?vllm$|^VLLM::|^vllm\.entrypoints' /proc/[0-9]*/cmdline |
    while read -r file; do process "${file%/cmdline}" | send vllm; done

# Who else may read what only root should: the file itself, wherever links lead.
for file in $PRIVATE; do
    [ ! -f "$file" ] || { echo "$file"; stat -L -c '%U %a' -- "$file"; } | send private
done

[ -n "$WSL2" ] || exit 0
if [ -e /etc/wsl.conf ]; then send wsl_conf </etc/wsl.conf; fi
drive=$(sed -n 's/^C:[^ ]* \([^ ]*\) .*/\1/p' /proc/mounts | head -n 1)
drive=${drive:-/mnt/c}
if [ -d "$drive/Users" ]; then
    say windows "$drive"
    place windows "$drive"
    for home in "$drive"/Users/*/; do
        case $home in
            */Public/ | */Default/ | */"All Users"/ | */"Default User"/) continue ;;
        esac
        home=${home%/}
        [ -d "$home" ] || continue
        # A link is one of Windows' own names for a folder that is listed anyway.
        if [ ! -L "$home" ]; then printf %s "${home##*/}" | send windows_user; fi
        if [ -e "$home/.wslconfig" ]; then
            { echo "${home##*/}"; cat "$home/.wslconfig"; } | send wslconfig
        fi
    done
fi
wsl=$(first "$drive/Program Files/WSL/wsl.exe" "$drive/Windows/System32/wsl.exe")
if [ -n "$wsl" ]; then timeout 5 "$wsl" --version 2>/dev/null </dev/null | send wsl_version; fi
wslpath -w / 2>/dev/null | send wslpath
exit 0
