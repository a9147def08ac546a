#!/usr/bin/env bash
# Checks the manifests of deploy/kubernetes and the rules that scale the dispatchers, without a cluster.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
    cat <<'U'
Usage: deploy/scripts/check-kubernetes.sh [--help]

Renders the overlays of deploy/kubernetes with kustomize, compares them with Kubernetes' own schemas of two versions, and checks that they
are as strict as the guide says and fit the programs. Simulates how the number of dispatchers follows deploy/monitoring/rules/scaling.yml.
No cluster is needed, so nothing is applied. Keeps kustomize and a Python environment in .push.
U
}
while [ $# -gt 0 ]; do
    case $1 in
        -h | --help) usage; exit 0 ;;
        *) usage >&2; fail "unknown option '$1'." ;;
    esac
done

# The oldest that the manifests are for, and the newest that kubernetes-validate carries.
kubernetes_versions=(1.29 1.37)
kustomize_release=trixie # Debian 12 has no kustomize, Debian 13 has

failures=0
complain() { printf '%s    %s%s\n' "$red" "$*" "$plain" >&2; failures=$((failures + 1)); }

# run COMMAND…: its output goes to a file, and is shown if it fails.
run() {
    foreground "$@" >"$work/output" 2>&1 && return
    sed 's/^/    /' "$work/output" >&2
    return 1
}

# Sets $kustomize. Takes Debian 13's package with lists of apt's own in this run's folder: nothing of the machine's apt changes.
find_kustomize() {
    local folder="$root/.push/kustomize" mirror lists="$work/apt"
    kustomize=$(command -v kustomize || :)
    [ -z "$kustomize" ] || return 0
    kustomize="$folder/usr/bin/kustomize"
    [ ! -x "$kustomize" ] || return 0
    step "Getting kustomize from Debian 13"
    # shellcheck disable=SC2016 # the names are apt's
    mirror=$(apt-get indextargets --format '$(ORIGIN) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' \
        | awk '$1 == "Debian" && $2 == "main" && !uri { uri = $3 } END { print uri }')
    [ -n "$mirror" ] || fail "apt knows no mirror of Debian: run 'apt-get update', or install kustomize 5 so that it is on the PATH."
    mkdir -p "$lists/lists/partial" "$lists/cache/archives/partial" "$folder"
    : >"$lists/status"
    printf 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s %s main\n' "$mirror" "$kustomize_release" >"$lists/sources.list"
    cat >"$lists/apt.conf" <<A
Dir::Etc::sourcelist "$lists/sources.list";
Dir::Etc::sourceparts "-";
Dir::State "$lists";
Dir::State::status "$lists/status";
Dir::Cache "$lists/cache";
Acquire::Languages "none";
APT::Sandbox::User "root";
A
    if ! run env APT_CONFIG="$lists/apt.conf" apt-get update -q \
        || ! run env -C "$lists" APT_CONFIG="$lists/apt.conf" apt-get download -q kustomize \
        || ! run dpkg-deb -x "$lists"/kustomize_*.deb "$folder"; then
        fail "kustomize could not be had from Debian 13 ($mirror, above): install kustomize 5 so that it is on the PATH, and try again."
    fi
}

# simulate RULES SCALED_OBJECTS [OPTION…]
simulate() {
    local rules=$1 objects=$2
    shift 2
    run "$python" "$root/Tests/Kubernetes/scaling_simulation.py" --rules "$rules" --scaled-objects "$objects" "$@"
}

begin_run kubernetes-check
require_packages python3 python3-venv prometheus openssl ca-certificates
export PYTHONDONTWRITEBYTECODE=1
python_environment kubernetes Tests/Kubernetes/requirements.txt
python="$environment/bin/python"
# A second run waits here, and finds the first one's program.
exec 9>"$root/.push/kustomize.lock"
flock 9
find_kustomize
exec 9>&-
began=$SECONDS

step "Rendering the overlays"
# The components that production/kustomization.yaml leaves to the reader.
mkdir "$work/scaled"
cat >"$work/scaled/kustomization.yaml" <<Y
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
namespace: push
resources: [../../../deploy/kubernetes/overlays/production]
components: [../../../deploy/kubernetes/components/keda, ../../../deploy/kubernetes/components/traces]
Y
for overlay in base overlays/demo overlays/production scaled; do
    name=$(basename "$overlay")
    folder="$root/deploy/kubernetes/$overlay"
    [ "$overlay" != scaled ] || folder="$work/scaled"
    "$kustomize" build "$folder" >"$work/$name.yaml" 2>"$work/output" || { cat "$work/output" >&2; fail "kustomize cannot render $overlay (above)."; }
    # kustomize warns of what it will stop to understand.
    [ ! -s "$work/output" ] || { cat "$work/output" >&2; complain "kustomize warns of $overlay (above)."; }
done
overlays=("$work/demo.yaml" "$work/production.yaml" "$work/scaled.yaml")

# Schemas of KEDA are not in it: check_manifests.py checks the fields of the ScaledObjects in scaled.yaml.
for version in "${kubernetes_versions[@]}"; do
    step "Kubernetes $version knows every field"
    run "$root/.push/kubernetes/bin/kubernetes-validate" --strict --quiet -k "$version" "$work/base.yaml" "$work/demo.yaml" "$work/production.yaml" \
        || complain "a manifest does not fit the schemas of Kubernetes $version (above)."
done

step "The manifests are strict, and fit the programs"
if run "$python" "$root/Tests/Kubernetes/check_manifests.py" "${overlays[@]}" && note "$(cat "$work/output")" \
    && run "$python" "$root/Tests/Kubernetes/break_manifests.py" "$work/scaled.yaml" "$work/demo.yaml"; then
    note "$(cat "$work/output")"
else
    complain "the manifests, or their checks, are not in order (above)."
fi

step "The demonstration's credentials reach the API of Kubernetes"
mkdir "$work/credentials"
run "$python" "$root/Tests/Kubernetes/store_credentials_test.py" "$work/credentials" \
    || complain "store-credentials.sh does not do what it promises (above)."

step "Prometheus reads the configuration"
# Debian builds promtool without the discovery of Kubernetes: another one stands in for it.
sed '/kubernetes_sd_configs:/,/namespaces:/d; s/^    relabel_configs:/    static_configs: []\n&/' \
    "$root/deploy/kubernetes/prometheus.yml" >"$work/prometheus.yml"
run promtool check config "$work/prometheus.yml" || complain "promtool refuses deploy/kubernetes/prometheus.yml (above)."

step "The number of dispatchers follows the need"
rules="$root/deploy/monitoring/rules/scaling.yml"
if simulate "$rules" "$work/scaled.yaml" --table "$work/table.md" --promtool "$work/simulated.yml"; then
    sed 's/^/    /' "$work/output"
else
    complain "the simulation shows a number of dispatchers that is not wanted (above)."
fi
while IFS= read -r row; do
    grep -qxF -- "$row" "$root/docs/guides/kubernetes.md" || complain "docs/guides/kubernetes.md does not have this row: $row"
done <"$work/table.md"
run promtool test rules "$work/simulated.yml" || complain "promtool computes another pressure than Tests/Kubernetes/rule_expressions.py (above)."

# broken FILE EXPRESSION WORDS: the simulation must notice that sed's EXPRESSION changed the rules or the ScaledObjects.
broken() {
    local copy
    copy="$work/broken-$(basename "$1")"
    sed "$2" "$1" >"$copy"
    if cmp -s "$1" "$copy"; then
        complain "nothing to break: $3 (mend the expression in check-kubernetes.sh)."
    elif [ "$1" = "$rules" ]; then
        ! simulate "$copy" "$work/scaled.yaml" >/dev/null 2>&1 || complain "the simulation does not notice: $3."
    else
        ! simulate "$rules" "$copy" >/dev/null 2>&1 || complain "the simulation does not notice: $3."
    fi
}
step "The simulation notices broken rules"
broken "$rules" 's/> 0\.5$/> 500/' "a slow APNs holds nothing back"
broken "$rules" 's/4 - 3/4 - 0/' "nothing is held back"
broken "$rules" 's|} / 5$|} / 500|' "jobs of now may wait for minutes"
broken "$rules" 's|} / 120$|} / 1200|' "jobs of bulk may wait for twenty minutes"
broken "$rules" 's/0\.25/25/' "the deadline counts for nothing"
broken "$work/scaled.yaml" 's/stabilizationWindowSeconds: 60$/stabilizationWindowSeconds: 0/' "the autoscaler does not wait before it scales up"

[ "$failures" = 0 ] || fail "the manifests for Kubernetes are not in order ($failures complaints above)."
note "in $((SECONDS - began)) s"
