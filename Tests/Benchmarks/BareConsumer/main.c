// The bare thing under our consumer: takes messages from a queue over librabbitmq and acknowledges them, and nothing else.
//   BareConsumer URL QUEUE MESSAGES PREFETCH
// Prints one JSON object: messages, seconds, cpu_seconds (user and system time from the first message to the last acknowledgement).
#include <amqp.h>
#include <amqp_tcp_socket.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>

static double processor_seconds(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void require(int good, const char *what) {
    if (good) return;
    fprintf(stderr, "BareConsumer: %s failed\n", what);
    exit(1);
}

static amqp_connection_state_t connect_to(char *url) {
    struct amqp_connection_info info;
    amqp_default_connection_info(&info);
    require(amqp_parse_url(url, &info) == AMQP_STATUS_OK, "reading the URL");
    amqp_connection_state_t state = amqp_new_connection();
    amqp_socket_t *socket = amqp_tcp_socket_new(state);
    require(socket && amqp_socket_open(socket, info.host, info.port) == 0, "connecting");
    amqp_rpc_reply_t reply = amqp_login(state, info.vhost[0] ? info.vhost : "/", 1, 131072, 0, AMQP_SASL_METHOD_PLAIN, info.user, info.password);
    require(reply.reply_type == AMQP_RESPONSE_NORMAL, "logging in");
    amqp_channel_open(state, 1);
    require(amqp_get_rpc_reply(state).reply_type == AMQP_RESPONSE_NORMAL, "opening a channel");
    return state;
}

int main(int count, char **arguments) {
    require(count == 5, "BareConsumer URL QUEUE MESSAGES PREFETCH");
    long wanted = atol(arguments[3]), taken = 0, acknowledged = 0, batch = atol(arguments[4]) / 4;
    amqp_connection_state_t state = connect_to(arguments[1]);
    amqp_basic_qos(state, 1, 0, (uint16_t)atol(arguments[4]), 0);
    amqp_basic_consume(state, 1, amqp_cstring_bytes(arguments[2]), amqp_empty_bytes, 0, 0, 0, amqp_empty_table);
    require(amqp_get_rpc_reply(state).reply_type == AMQP_RESPONSE_NORMAL, "consuming");
    double began = now(), cpu = processor_seconds();
    uint64_t tag = 0, body = 0;
    while (taken < wanted) {
        amqp_frame_t frame;
        struct timeval none = {0, 0};
        int status = amqp_simple_wait_frame_noblock(state, &frame, &none);
        if (status == AMQP_STATUS_TIMEOUT) {
            // Nothing more has come: acknowledge what there is, as a consumer does that is to keep up, and wait.
            if (taken > acknowledged) amqp_basic_ack(state, 1, tag, 1), acknowledged = taken;
            status = amqp_simple_wait_frame(state, &frame);
        }
        require(status == AMQP_STATUS_OK, "receiving");
        if (frame.frame_type == AMQP_FRAME_METHOD) {
            require(frame.payload.method.id == AMQP_BASIC_DELIVER_METHOD, "receiving a delivery");
            tag = ((amqp_basic_deliver_t *)frame.payload.method.decoded)->delivery_tag;
            continue;
        }
        if (frame.frame_type == AMQP_FRAME_HEADER) body = frame.payload.properties.body_size;
        if (frame.frame_type == AMQP_FRAME_BODY) body -= frame.payload.body_fragment.len;
        if (body > 0) continue;
        taken += 1;
        amqp_maybe_release_buffers(state);
        if (taken - acknowledged >= batch) amqp_basic_ack(state, 1, tag, 1), acknowledged = taken;
    }
    if (taken > acknowledged) amqp_basic_ack(state, 1, tag, 1);
    double seconds = now() - began;
    cpu = processor_seconds() - cpu;
    amqp_connection_close(state, AMQP_REPLY_SUCCESS);
    amqp_destroy_connection(state);
    printf("{\"messages\":%ld,\"seconds\":%.6f,\"cpu_seconds\":%.6f}\n", taken, seconds, cpu);
    return 0;
}
