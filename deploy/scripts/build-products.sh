#!/usr/bin/env bash
# Builds products one after another: build-products.sh [ARGUMENT of swift build]… -- PRODUCT…
# 'swift build' without a product also builds every tool and example of every package that ours depends on.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
arguments=()
while [ "$1" != -- ]; do
    arguments+=("$1")
    shift
done
shift
for product in "$@"; do
    printf 'product %s\n' "$product"
    swift build ${arguments[@]+"${arguments[@]}"} --product "$product"
done
