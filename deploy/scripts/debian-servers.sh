# The servers of another Debian: RabbitMQ 4.0 and PostgreSQL 17 are those of Debian 13 (trixie). Sourced after common.sh, before servers.sh.
#
# debootstrap makes them once, in .push/NAME, and chroot runs them there. What a run keeps its files in is mounted there at the same path, so every
# path means the same inside and outside. The mounts belong to a mount namespace of the run: they end with its last process, also where the script
# is killed, and two runs do not see each other's.

# enter_servers NAME SCRIPT ARGUMENT…: begins the script anew in a mount namespace, with PUSH_SERVERS_ROOT set; returns where it runs in one already.
# Before begin_run: what is begun anew cleans nothing up.
enter_servers() {
    local name=$1
    shift
    [ "$name" = trixie ] || fail "--servers is 'trixie' (Debian 13), or left out for the servers of this machine."
    [ "${PUSH_SERVERS_ROOT:-}" != "$root/.push/$name" ] || return 0
    [ "$(id -u)" = 0 ] || fail "--servers needs root: debootstrap, mount and chroot do."
    # The temporary folder that is mounted there.
    TMPDIR=/tmp PUSH_SERVERS_ROOT="$root/.push/$name" exec unshare --mount --propagation private "$@"
}

# Makes the servers if they are missing, and mounts what they share with this machine. After begin_run, before choose_data_folder.
prepare_servers() {
    local folder=$PUSH_SERVERS_ROOT name lock
    name=$(basename "$folder")
    # A second run waits until the first has made them.
    exec {lock}>"$folder.lock"
    flock "$lock"
    [ -d "$folder" ] || make_servers "$name" "$folder" {lock}>&-
    exec {lock}>&-
    mkdir -p "$folder$root"
    : >>"$folder/etc/hosts"
    # What a run mounts later in one of these, a small disk for example, appears inside too; nothing goes the other way.
    mount --make-rshared /
    mount --bind --make-private "$folder" "$folder"
    for name in /proc /dev /tmp /etc/hosts "$root"; do mount --rbind --make-rslave "$name" "$folder$name"; done
    note "servers of Debian $(cat "$folder/etc/debian_version"), in $folder"
}

# make_servers NAME FOLDER: under another name until it is whole.
make_servers() {
    local new="$2.new" mirror
    require_packages debootstrap
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' | head -n 1)
    [ -n "$mirror" ] || fail "apt knows no mirror of Debian's from which debootstrap could take $1."
    step "Making the servers of $1 in $2 (once; two minutes)"
    rm -rf --one-file-system "$new"
    foreground debootstrap --variant=minbase --include=rabbitmq-server,postgresql,ca-certificates "$1" "$new" "$mirror" >"$work/debootstrap.log" 2>&1 \
        || { tail -n 5 "$work/debootstrap.log" >&2; fail "debootstrap could not make $1 (its last lines are above)."; }
    rm -f "$new"/var/cache/apt/archives/*.deb
    mv "$new" "$2"
}
