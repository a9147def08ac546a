# Private PostgreSQL and RabbitMQ on loopback, for deploy/run, deploy/test and deploy/bench. Sourced after common.sh.

data=   # where the servers keep their files
# Words before each of the servers' programs: they may be those of another Debian (debian-servers.sh). PostgreSQL refuses to run as root.
server_prefix=() database_prefix=()
if [ -n "${PUSH_SERVERS_ROOT:-}" ]; then
    server_prefix=(chroot "$PUSH_SERVERS_ROOT")
    database_prefix=(chroot --userspec=postgres:postgres "$PUSH_SERVERS_ROOT")
elif [ "$(id -u)" = 0 ]; then
    database_prefix=(setpriv --reuid=postgres --regid=postgres --clear-groups)
fi

# choose_data_folder [FOLDER]: in it, or in this run's own. PostgreSQL's own account cannot enter, say, /root: then the data goes to the temporary
# folder.
choose_data_folder() {
    data="${1:-$work}/data"
    mkdir -p "$data"
    if [ "$(id -u)" = 0 ]; then
        getent passwd postgres >/dev/null || fail "PostgreSQL does not run as root and there is no account 'postgres'; reinstall the package postgresql."
        if ! as_database_account test -x "$data"; then
            data=$(mktemp -d "${TMPDIR:-/tmp}/push-data.XXXXXX")
            chmod 755 "$data"
            note "the account 'postgres' cannot enter $work, so the servers keep their files in $data"
        fi
    fi
}

as_database_account() { ${database_prefix[@]+"${database_prefix[@]}"} "$@"; }
in_servers_root() { ${server_prefix[@]+"${server_prefix[@]}"} "$@"; }

# Sets POSTGRES_URL. postgres_options may hold more settings; fsync stays on unless a caller turns it off: what is measured and promised includes it.
start_postgres() {
    local programs folder="$data/postgres"
    programs=$(in_servers_root sh -c 'ls -d /usr/lib/postgresql/*/bin' 2>/dev/null | sort -V | tail -n 1)
    [ -n "$programs" ] || fail "the PostgreSQL server's programs are not in /usr/lib/postgresql; reinstall the package postgresql."
    mkdir -p "$folder"
    # By name, where its programs run: the account's number is another one in another Debian.
    [ "$(id -u)" != 0 ] || in_servers_root chown postgres "$folder"
    as_database_account "$programs/initdb" -D "$folder" -U postgres --auth=trust -E UTF8 --locale=C >"$work/initdb.log" 2>&1 \
        || { tail -n 5 "$work/initdb.log" >&2; fail "initdb failed (its last lines are above)."; }
    claim_port
    # The server itself must be the child, so that its id is the one to stop; SIGINT is PostgreSQL's fast shutdown.
    local stop_signal=INT
    start postgres ${database_prefix[@]+"${database_prefix[@]}"} "$programs/postgres" -D "$folder" -p "$port" -h 127.0.0.1 -k "$folder" -c max_connections=300 ${postgres_options[@]+"${postgres_options[@]}"}
    postgres_id=$started postgres_port=$port
    wait_for postgres "$postgres_id" 60 in_servers_root "$programs/pg_isready" -q -h 127.0.0.1 -p "$postgres_port" -U postgres
    POSTGRES_URL="postgresql://postgres@127.0.0.1:$postgres_port/postgres"
}

# begin_rabbitmq starts it (its files are in $rabbitmq_folder, where that is set; rabbitmq_arguments may hold settings for its command line),
# finish_rabbitmq waits for it and sets RABBITMQ_URL: it takes ten seconds that something else can use.
begin_rabbitmq() {
    local home="${rabbitmq_folder:-$data/rabbitmq}"
    mkdir -p "$home/log"
    echo '[].' >"$home/enabled_plugins"
    : >"$home/rabbitmq.conf"
    (umask 077 && head -c 24 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$home/.erlang.cookie")
    claim_port; local epmd_port=$port
    claim_port; local distribution_port=$port
    claim_port; rabbitmq_port=$port
    # RabbitMQ would leave an epmd behind; this one is ours to stop.
    start epmd ${server_prefix[@]+"${server_prefix[@]}"} epmd -address 127.0.0.1 -port "$epmd_port"
    rabbitmq_environment=(
        HOME="$home" ERL_EPMD_PORT="$epmd_port" ERL_EPMD_ADDRESS=127.0.0.1
        RABBITMQ_NODENAME="push$rabbitmq_port@localhost" RABBITMQ_NODE_IP_ADDRESS=127.0.0.1 RABBITMQ_NODE_PORT="$rabbitmq_port"
        RABBITMQ_DIST_PORT="$distribution_port" RABBITMQ_MNESIA_BASE="$home/mnesia" RABBITMQ_LOG_BASE="$home/log"
        RABBITMQ_ENABLED_PLUGINS_FILE="$home/enabled_plugins" RABBITMQ_CONFIG_FILE="$home/rabbitmq" RABBITMQ_CONF_ENV_FILE="$home/none"
        RABBITMQ_PID_FILE="$home/pid" RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="+S 2:2 +sbwt none ${rabbitmq_arguments:-} -kernel inet_dist_use_interface {127,0,0,1}"
    )
    start rabbitmq env "${rabbitmq_environment[@]}" ${server_prefix[@]+"${server_prefix[@]}"} /usr/lib/rabbitmq/bin/rabbitmq-server
    rabbitmq_id=$started
}

finish_rabbitmq() {
    wait_for rabbitmq "$rabbitmq_id" 120 port_answers "$rabbitmq_port"
    RABBITMQ_URL="amqp://guest:guest@127.0.0.1:$rabbitmq_port/"
}

# What to type for rabbitmqctl: this node has a name, a port mapper and a cookie of its own. Debian's own rabbitmqctl would change the user and HOME.
rabbitmqctl_words() {
    local setting words=env
    for setting in "${rabbitmq_environment[@]}"; do
        case $setting in HOME=* | ERL_EPMD_PORT=* | RABBITMQ_NODENAME=*) words+=" $setting" ;; esac
    done
    printf '%s /usr/lib/rabbitmq/bin/rabbitmqctl\n' "$words"
}
