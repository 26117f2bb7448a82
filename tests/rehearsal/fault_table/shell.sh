# What the faults' commands have in common.
set -e

# over DIR OPTIONS: a file system of its own with the same content, in the place of a folder.
over() {
    mount -t tmpfs -o "$2" none /mnt
    cp -a "$1/." /mnt/
    chmod --reference="$1" /mnt
    chown --reference="$1" /mnt
    mount --bind /mnt "$1"
    umount /mnt
}

# full DIR: not a block is free there any more.
full() {
    over "$1" size=500m
    used=$(df --output=used -k "$1" | tail -n 1 | tr -d ' ')
    mount -o "remount,size=$((used + 4))k" "$1"
    cat /dev/zero >"$1/.filler" 2>/dev/null || true
}

# no_inodes DIR: there is room, but for no more files.
no_inodes() {
    over "$1" size=500m
    mount -o "remount,nr_inodes=$(df --output=iused "$1" | tail -n 1 | tr -d ' ')" "$1"
}

# read_only DIR
read_only() {
    mount --bind "$1" "$1"
    mount -o remount,bind,ro "$1"
}

# junk FILE: bytes that are no text, owner and mode as before.
junk() { printf '\377\376\000{"a": [\200' >"$1"; }

# new_release: nothing is there of the release of version 0.30.0 but, perhaps, its inputs.
new_release() {
    rm -rf /opt/vllm/releases/0.30.0-*
    find /opt/vllm/cache/downloads/wheels -name 'vllm_standin-0.30.0*' -delete
}

# keep FILE, put_back FILE: as it was, times and owner included.
keep() { cp -a "$1" "/srv/kept$(printf %s "$1" | tr / _)"; }
put_back() { rm -rf "$1"; mv "/srv/kept$(printf %s "$1" | tr / _)" "$1"; }

# kill_at TEXT: the server gets SIGKILL as soon as its log has a line with this text.
kill_at() {
    systemd-run --quiet --collect --unit=killer sh -c "
        journalctl --unit=vllm --follow --lines=0 --output=cat | while read -r line; do
            case \$line in *'$1'*) systemctl kill --signal=KILL vllm; exit ;; esac
        done"
    sleep 0.5
}
