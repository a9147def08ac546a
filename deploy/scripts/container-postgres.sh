#!/usr/bin/env bash
# The entry point of the stand-in for the image postgres (container-images.sh): the settings that docker-compose.yml gives, and no others.
set -euo pipefail
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    initdb -D "$PGDATA" -U "$POSTGRES_USER" --auth-local=trust --auth-host=scram-sha-256 \
        --pwfile=<(printf '%s\n' "$POSTGRES_PASSWORD") -E UTF8 --locale=C.UTF-8
    echo 'host all all all scram-sha-256' >>"$PGDATA/pg_hba.conf"
    postgres --single -D "$PGDATA" postgres <<<"CREATE DATABASE \"$POSTGRES_DB\"" >/dev/null
fi
exec postgres -c listen_addresses='*' -c unix_socket_directories=/tmp
