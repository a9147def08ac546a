#!/usr/bin/env bash
# Writes the two packages that others depend on, each as a git repository of its own.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
    cat <<'U'
Usage: deploy/scripts/make-packages.sh [--snapshot] FOLDER

Makes two git repositories in FOLDER, which must not hold them yet:

  push-client   PushClient, for apps: Shared/PushClient, and docs/guides/app-side.md as GUIDE.md. It depends on no other package.
  push-api      PushAPI, for Swift backends: Shared/PushAPI, Shared/StrictJSON, and docs/guides/swift-backend.md as GUIDE.md

Manifest and changelog come from deploy/packages. Each repository has the branch main and one tag: the version in
Shared/Observability/Operations/BuildVersion.swift. Push both to the git server of your company, where apps and backends find them:

  git -C FOLDER/push-client push https://git.example.com/ios/push-client.git main 1.0.0-beta.1

The history holds the commits of this branch that changed the package. The same commits give the same repository, so a later version continues
the history that you pushed. Uncommitted changes are not in it; the script refuses them. Without the whole history (a shallow clone, no git),
one commit holds the files as they are here.

  --snapshot    one commit, with the files as they are here, in a whole clone too
U
}
snapshot= folder=
while [ $# -gt 0 ]; do
    case $1 in
        --snapshot) snapshot=1 ;;
        -h | --help) usage; exit 0 ;;
        -*) usage >&2; fail "unknown option '$1'." ;;
        *) [ -z "$folder" ] || fail "give one folder."; folder=$1 ;;
    esac
    shift
done
[ -n "$folder" ] || { usage >&2; fail "give the folder for the repositories."; }
begin_run packages
# A failure in $(…) is one of the script.
shopt -s inherit_errexit
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

version=$(sed -n 's/.*number: "\([^"]*\)".*/\1/p' "$root/Shared/Observability/Operations/BuildVersion.swift")
[ -n "$version" ] || fail "Shared/Observability/Operations/BuildVersion.swift names no version."
# No setting of the person who runs this may change a commit.
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
if [ -z "$snapshot" ] && [ "$(git -C "$root" rev-parse --is-shallow-repository 2>/dev/null)" != false ]; then
    note "no whole clone: one commit instead of the history"
    snapshot=1
fi

# own_links [UP]: of a page, a link that leads to no file of the package becomes its text. $guide is the page that is GUIDE.md here. UP leads
# from the page's folder to the package's.
own_links() {
    guide=$guide up=${1-} perl -0pe '
        s{\[([^\]]*)\]\((?=\.\./|[^)\#:]+\.md)([^)\#]*)(\#[^)]*)?\)}{
            my ($text, $path, $part) = ($1, $2, $3 // "");
            my $file = $path =~ m{(^|/)\Q$ENV{guide}\E$} ? "GUIDE.md" : $path =~ m{Shared/[A-Za-z]+/README\.md$} ? "README.md"
                : $path =~ m{Shared/[A-Za-z]+/Example$} ? "Example" : "";
            $file ? "[$text]($ENV{up}$file$part)" : $text
        }gex;
        s{`Shared/[A-Za-z]+/Example`}{`Example/`}g'
}

# git in this clone, whatever repository is being made.
here() { env -u GIT_DIR -u GIT_INDEX_FILE -u GIT_WORK_TREE git -C "$root" "$@"; }

# put PATH OBJECT: adds a file of a commit to the package, as PATH.
put() { git update-index --add --cacheinfo "100644,$2,$1"; }
# has COMMIT:PATH: prints its object, or fails.
has() { git rev-parse --verify --quiet "$1"; }

# package_of NAME COMMIT: prints the tree of the package at COMMIT.
package_of() {
    local name=$1 commit=$2 module file object
    git read-tree --empty
    for module in "${modules[@]}"; do
        ! has "$commit:Shared/$module" >/dev/null || git read-tree --prefix="Sources/$module/" "$commit:Shared/$module"
    done
    git rm -r -q --cached --ignore-unmatch "Sources/${modules[0]}/README.md" "Sources/${modules[0]}/Example"
    # Sources of an app, no part of the library.
    ! has "$commit:Shared/${modules[0]}/Example" >/dev/null || git read-tree --prefix=Example/ "$commit:Shared/${modules[0]}/Example"
    ! has "$commit:Shared/${modules[0]}/Example/README.md" >/dev/null ||
        put Example/README.md "$(git cat-file blob "$commit:Shared/${modules[0]}/Example/README.md" | own_links ../ | git hash-object -w --stdin)"
    for file in Package.swift CHANGELOG.md; do
        ! object=$(has "$commit:deploy/packages/$name/$file") || put "$file" "$object"
    done
    ! has "$commit:Shared/${modules[0]}/README.md" >/dev/null ||
        put README.md "$(git cat-file blob "$commit:Shared/${modules[0]}/README.md" | own_links | git hash-object -w --stdin)"
    ! has "$commit:docs/guides/$guide" >/dev/null ||
        put GUIDE.md "$(git cat-file blob "$commit:docs/guides/$guide" | own_links | git hash-object -w --stdin)"
    git write-tree
}

# make NAME GUIDE MODULE…: the first module gives the package its README.
make() {
    local name=$1 commit tree parent last= count=0 paths path parents=() who
    guide=$2
    shift 2
    modules=("$@")
    [ ! -e "$folder/$name" ] || fail "$folder/$name is there already; give another folder, or remove it."
    step "Making $name $version"
    paths=("deploy/packages/$name" "docs/guides/$guide")
    for path in "${modules[@]}"; do paths+=("Shared/$path"); done
    # A repository to make objects in. Its index alone has files, its work tree stays empty.
    mkdir "$work/$name.files"
    export GIT_DIR="$work/$name.git" GIT_INDEX_FILE="$work/$name.index" GIT_WORK_TREE="$work/$name.files"
    git init -q --initial-branch=main
    if [ -n "$snapshot" ]; then
        # In a work tree, so that .gitignore counts.
        git --work-tree="$root" -C "$root" add -A -- "${paths[@]}"
        export GIT_AUTHOR_NAME=push GIT_AUTHOR_EMAIL=push@localhost GIT_COMMITTER_NAME=push GIT_COMMITTER_EMAIL=push@localhost
        commit=$(git commit-tree -m "snapshot" "$(git write-tree)")
        parent=$(git commit-tree -m "$name $version" "$(package_of "$name" "$commit")")
    else
        [ -z "$(here status --porcelain -- "${paths[@]}")" ] ||
            fail "there are uncommitted changes of $name; commit them, or say --snapshot."
        here rev-parse --path-format=absolute --git-path objects >"$GIT_DIR/objects/info/alternates"
        # The first parents alone: a branch that is merged later must not change what was pushed before.
        while read -r commit; do
            tree=$(package_of "$name" "$commit")
            [ "$tree" != "$last" ] || continue
            last=$tree count=$((count + 1))
            # Author and message stay, so do the dates: the same commit every time.
            mapfile -t who < <(here show -s --format='%an%n%ae%n%aI%n%cn%n%ce%n%cI' "$commit")
            parent=$(here show -s --format=%B "$commit" |
                GIT_AUTHOR_NAME=${who[0]} GIT_AUTHOR_EMAIL=${who[1]} GIT_AUTHOR_DATE=${who[2]} \
                    GIT_COMMITTER_NAME=${who[3]} GIT_COMMITTER_EMAIL=${who[4]} GIT_COMMITTER_DATE=${who[5]} \
                    git commit-tree "${parents[@]}" "$tree")
            parents=(-p "$parent")
        done < <(here rev-list --reverse --first-parent HEAD -- "${paths[@]}")
        note "$count commits"
    fi
    git update-ref refs/heads/main "$parent"
    git tag "$version" "$parent"
    # By its address, so that the objects of the package come along, and no others.
    unset GIT_DIR GIT_INDEX_FILE GIT_WORK_TREE
    git clone -q "file://$work/$name.git" "$folder/$name" || fail "git could not write $folder/$name."
    git -C "$folder/$name" remote remove origin
    note "$folder/$name"
}

make push-client app-side.md PushClient
make push-api swift-backend.md PushAPI StrictJSON
