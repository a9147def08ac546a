# The base images and the four images of deploy/Dockerfile, for deploy/containers. Sourced after container-engine.sh.
#
# If no registry answers, stand-ins take the names of the registry's images: Debian from debootstrap, this machine's Swift, and Debian 13's
# PostgreSQL and RabbitMQ. They take the settings that docker-compose.yml gives.

source "$root/deploy/scripts/debian-servers.sh"
images=(token-service dispatcher apns-simulator pushctl)
build_options=(--file "$root/deploy/Dockerfile")

prepare_base_images() {
    if foreground timeout 120 podman pull docker.io/library/debian:bookworm-slim >"$work/pull.log" 2>&1; then
        note "the base images are the registry's"
        return
    fi
    note "no registry answers: stand-ins take the place of debian, swift, postgres and rabbitmq"
    make_debian
    import_image debian:bookworm-slim "$root/.push/bookworm" 'CMD ["bash"]'
    make_swift_image
    make_server_images
}

# import_image NAME FOLDER CHANGE…
import_image() {
    local name=$1 folder=$2 change options=()
    shift 2
    for change in "$@"; do options+=(--change "$change"); done
    # shellcheck disable=SC2016 # the inner shell's
    must "podman could not import $folder as $name" \
        bash -c 'set -o pipefail; tar --one-file-system -C "$1" -c . | podman import "${@:3}" - "docker.io/library/$2"' \
        - "$folder" "$name" ${options[@]+"${options[@]}"}
}

# Debian 12 without handbooks, as the registry's image has it: in .push/bookworm, once.
make_debian() {
    local folder="$root/.push/bookworm" mirror lock
    exec {lock}>"$folder.lock"
    flock "$lock"
    if [ ! -d "$folder" ]; then
        require_packages debootstrap
        # shellcheck disable=SC2016 # apt's own
        mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' | head -n 1)
        [ -n "$mirror" ] || fail "apt knows no mirror of Debian's from which debootstrap could take bookworm."
        note "making Debian 12 in $folder (once; a minute)"
        rm -rf --one-file-system "$folder.new"
        must "debootstrap could not make bookworm" debootstrap --variant=minbase bookworm "$folder.new" "$mirror"
        rm -rf "$folder.new"/var/cache/apt/{archives/*.deb,*.bin} "$folder.new"/var/lib/apt/lists/*
        rm -rf "$folder.new"/usr/share/{doc,man,info,locale}/*
        printf 'path-exclude /usr/share/%s/*\n' doc man info locale >"$folder.new/etc/dpkg/dpkg.cfg.d/no-handbooks"
        printf '%s;\n' 'APT::Keep-Downloaded-Packages "false"' 'Dir::Cache::pkgcache ""' 'Dir::Cache::srcpkgcache ""' \
            >"$folder.new/etc/apt/apt.conf.d/no-cache"
        mv "$folder.new" "$folder"
    fi
    exec {lock}>&-
}

# The build mounts this machine's toolchain, and the local copies of packages that git's settings name, instead of copying them.
make_swift_image() {
    local toolchain setting source folder
    require_swift
    toolchain=$(dirname "$(dirname "$(readlink -f "$(command -v swift)")")")
    build_options+=(--volume "$toolchain:$toolchain:ro")
    : >"$work/gitconfig"
    while read -r setting source; do
        folder=${setting#url.} folder=${folder%.insteadof}
        [ -d "$folder" ] || continue
        git config --file "$work/gitconfig" --add "$setting" "$source"
        git config --file "$work/gitconfig" --replace-all safe.directory '*'
        case " ${build_options[*]} " in *" $folder:"*) ;; *) build_options+=(--volume "$folder:$folder:ro") ;; esac
    done < <(git config --get-regexp '^url\..*\.insteadof$' || :)
    [ ! -s "$work/gitconfig" ] || build_options+=(--volume "$work/gitconfig:/etc/gitconfig:ro")
    mkdir -p "$work/swift"
    cat >"$work/swift/Dockerfile" <<D
FROM docker.io/library/debian:bookworm-slim
RUN apt-get update -q && apt-get install -qy --no-install-recommends binutils ca-certificates git libc6-dev libcurl4 libedit2 \
    libgcc-12-dev libncurses6 libpython3.11 libsqlite3-0 libstdc++-12-dev libxml2 libz3-4 pkg-config tzdata zlib1g-dev
ENV PATH=$toolchain/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
D
    build_image docker.io/library/swift:6.3-bookworm "$work/swift"
}

# One file system for both, with Debian 13's servers.
make_server_images() {
    local folder="$root/.push/trixie" lock programs
    exec {lock}>"$folder.lock"
    flock "$lock"
    [ -d "$folder" ] || make_servers trixie "$folder" {lock}>&-
    exec {lock}>&-
    import_image trixie-servers:latest "$folder"
    programs=$(cd "$folder" && echo usr/lib/postgresql/*/bin)
    mkdir -p "$work/servers"
    cp "$root/deploy/scripts/container-postgres.sh" "$work/servers/"
    cat >"$work/servers/postgres" <<D
FROM docker.io/library/trixie-servers:latest
COPY --chmod=755 container-postgres.sh /usr/local/bin/container-postgres
RUN install -d -o postgres -g postgres -m 700 /var/lib/postgresql/data
ENV PATH=/$programs:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin PGDATA=/var/lib/postgresql/data
USER postgres
STOPSIGNAL SIGINT
ENTRYPOINT ["/usr/local/bin/container-postgres"]
D
    # RabbitMQ itself reads RABBITMQ_DEFAULT_USER and RABBITMQ_DEFAULT_PASS. Debian's own rabbitmqctl would change the user.
    cat >"$work/servers/rabbitmq" <<'D'
FROM docker.io/library/trixie-servers:latest
ENV PATH=/usr/lib/rabbitmq/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/var/lib/rabbitmq RABBITMQ_LOGS=-
USER rabbitmq
ENTRYPOINT ["/usr/lib/rabbitmq/bin/rabbitmq-server"]
D
    build_image docker.io/library/postgres:17 --file "$work/servers/postgres" "$work/servers"
    build_image docker.io/library/rabbitmq:4.1-management --file "$work/servers/rabbitmq" "$work/servers"
}

# The first of the four builds all programs; the others find its layers.
build_images() {
    local image commit
    commit=$(git -C "$root" rev-parse --short HEAD)
    show_progress &
    owned_processes+=("TERM:$!")
    for image in "${images[@]}"; do
        build_image "localhost/push/$image:latest" "${build_options[@]}" --target "$image" --build-arg BUILD_COMMIT="$commit" "$root"
    done
    stop_owned
}

# Notes how far the build is, until it is stopped.
show_progress() {
    local line shown=
    trap - EXIT INT TERM HUP
    while sleep 5; do
        line=$(build_progress "$work/output")
        [ "$line" = "$shown" ] || note "$line"
        shown=$line
    done
}
