#pragma once
// librabbitmq 0.11 (Debian 12) installs its headers at the top level, not under rabbitmq-c/.
#include <amqp.h>
#include <amqp_framing.h>
#include <amqp_tcp_socket.h>
#include <amqp_ssl_socket.h>

// Swift cannot call C variadics: the login with user and password, spelled out. channel_max 0: what the broker allows, 2047.
static inline amqp_rpc_reply_t push_amqp_login_plain(amqp_connection_state_t state, const char *vhost, int frame_max, int heartbeat,
                                                     const amqp_table_t *properties, const char *user, const char *password) {
    return amqp_login_with_properties(state, vhost, 0, frame_max, heartbeat, properties, AMQP_SASL_METHOD_PLAIN, user, password);
}
