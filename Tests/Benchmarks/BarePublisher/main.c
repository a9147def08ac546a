// The bare thing under our publisher: publishes one message over and over, persistent and with confirms, over librabbitmq, and nothing else.
//   BarePublisher URL EXCHANGE ROUTING_KEY BODY_FILE MESSAGES WINDOW PAUSE
// WINDOW messages at most wait for their confirm; with 1 each waits for the one before. PAUSE milliseconds pass before each. Prints one JSON
// object: messages, seconds, and the microseconds from publishing to the confirm, p50 and p99.
#include <amqp.h>
#include <amqp_tcp_socket.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void rest(uint64_t milliseconds) {
    struct timespec time = {(time_t)(milliseconds / 1000), (long)(milliseconds % 1000) * 1000000};
    if (milliseconds > 0) nanosleep(&time, NULL);
}

static void require(int good, const char *what) {
    if (good) return;
    fprintf(stderr, "BarePublisher: %s failed\n", what);
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
    amqp_confirm_select(state, 1);
    require(amqp_get_rpc_reply(state).reply_type == AMQP_RESPONSE_NORMAL, "asking for confirms");
    return state;
}

static amqp_bytes_t read_file(const char *path) {
    FILE *file = fopen(path, "rb");
    require(file != NULL, "opening the body's file");
    fseek(file, 0, SEEK_END);
    amqp_bytes_t body = amqp_bytes_malloc((size_t)ftell(file));
    rewind(file);
    require(fread(body.bytes, 1, body.len, file) == body.len, "reading the body's file");
    fclose(file);
    return body;
}

static int ascending(const void *left, const void *right) {
    double difference = *(const double *)left - *(const double *)right;
    return (difference > 0) - (difference < 0);
}

int main(int count, char **arguments) {
    require(count == 8, "BarePublisher URL EXCHANGE ROUTING_KEY BODY_FILE MESSAGES WINDOW PAUSE");
    uint64_t wanted = strtoull(arguments[5], NULL, 10), window = strtoull(arguments[6], NULL, 10), pause = strtoull(arguments[7], NULL, 10);
    uint64_t published = 0, confirmed = 0, next = 0;
    require(wanted > 0 && window > 0, "reading the numbers");
    amqp_connection_state_t state = connect_to(arguments[1]);
    amqp_bytes_t body = read_file(arguments[4]), exchange = amqp_cstring_bytes(arguments[2]), key = amqp_cstring_bytes(arguments[3]);
    amqp_basic_properties_t properties = {._flags = AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_CONTENT_TYPE_FLAG, .delivery_mode = 2,
                                          .content_type = amqp_cstring_bytes("application/x-protobuf")};
    double *sent = malloc(wanted * sizeof(double)), *took = malloc(wanted * sizeof(double));
    char *done = calloc(wanted + 1, 1);
    require(sent && took && done, "allocating");
    double began = now();
    while (confirmed < wanted) {
        while (published < wanted && published - confirmed < window) {
            rest(pause);
            sent[published++] = now();
            require(amqp_basic_publish(state, 1, exchange, key, 1, 0, &properties, body) == AMQP_STATUS_OK, "publishing");
            // Confirms that have come already are taken first: a publisher that only writes would let them pile up.
            if (amqp_data_in_buffer(state)) break;
        }
        amqp_frame_t frame;
        struct timeval none = {0, 0};
        int mayWait = published == wanted || published - confirmed >= window;
        int status = amqp_simple_wait_frame_noblock(state, &frame, mayWait ? NULL : &none);
        if (status == AMQP_STATUS_TIMEOUT) continue;
        require(status == AMQP_STATUS_OK, "receiving");
        require(frame.frame_type == AMQP_FRAME_METHOD && frame.payload.method.id == AMQP_BASIC_ACK_METHOD, "getting a message confirmed");
        amqp_basic_ack_t *ack = frame.payload.method.decoded;
        double moment = now();
        require(ack->delivery_tag >= 1 && ack->delivery_tag <= published, "matching a confirm");
        for (uint64_t tag = ack->multiple ? next + 1 : ack->delivery_tag; tag <= ack->delivery_tag; tag++) {
            if (done[tag]) continue;
            done[tag] = 1;
            took[confirmed++] = moment - sent[tag - 1];
        }
        while (next < wanted && done[next + 1]) next += 1;
        amqp_maybe_release_buffers(state);
    }
    double seconds = now() - began;
    amqp_connection_close(state, AMQP_REPLY_SUCCESS);
    amqp_destroy_connection(state);
    qsort(took, wanted, sizeof(double), ascending);
    printf("{\"messages\":%llu,\"seconds\":%.6f,\"p50_us\":%.1f,\"p99_us\":%.1f}\n", (unsigned long long)wanted, seconds,
           took[wanted / 2] * 1e6, took[wanted * 99 / 100] * 1e6);
    return 0;
}
