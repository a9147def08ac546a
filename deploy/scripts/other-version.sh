# Sourced by deploy/chaos --scenario upgrade --from REF, after common.sh and when the present programs are built.

# build_other REF: sets $other to the folder with the token-service and the dispatcher of that commit; the present one's, where they are the same.
build_other() {
    local commit folder
    commit=$(git -C "$root" rev-parse --verify --quiet "$1^{commit}") || fail "--from: this repository has no commit '$1'."
    if git -C "$root" diff --quiet "$commit" -- Package.swift Shared Services; then
        note "the services of $1 are the present ones"
        other=$programs
        return 0
    fi
    folder="$root/.push/version-$(git -C "$root" rev-parse --short "$commit")"
    mkdir -p "$folder"
    git -C "$root" archive "$commit" Package.swift Shared Services Tests | tar -x -C "$folder" || fail "--from: the files of $1 cannot be written to $folder."
    # What the present build has fetched need not be fetched again.
    if [ ! -d "$folder/.build/checkouts" ]; then
        mkdir -p "$folder/.build"
        cp -a "$root/.build/checkouts" "$root/.build/repositories" "$root/.build/workspace-state.json" "$folder/.build/" 2>/dev/null || :
    fi
    build "the services of $1 (release; the first time takes minutes)" -c release --package-path "$folder" --scratch-path "$folder/.build" -- token-service dispatcher
    other=$(cd "$folder" && swift build -c release --show-bin-path)
}
