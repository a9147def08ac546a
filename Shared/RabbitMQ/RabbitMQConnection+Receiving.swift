import CRabbitMQ
import Glibc

extension RabbitMQConnection {
    /// Takes all received frames, without waiting, and appends their events. Answers heartbeats on the way, so call it at least every
    /// quarter of one.
    ///
    /// Bodies and names are copied out; the library's memory is released after every message (docs/rabbitmq.md, Receiving).
    /// - Parameter limit: how many events at most; `wait` returns at once when there may be more.
    /// - Throws: the connection is dead: it was lost, closed by the broker, or nothing came for two heartbeats. The events have what came
    ///   before.
    package func receive(into events: inout [RabbitMQEvent], limit: Int = 1024) throws(RabbitMQError) {
        if !earlyEvents.isEmpty {
            events.append(contentsOf: earlyEvents)
            earlyEvents.removeAll(keepingCapacity: true)
        }
        try requireUsable("receive")
        var frame = amqp_frame_t()
        // The library calls this "return at once"; every other of its waits may be endless (docs/rabbitmq.md).
        var noWait = timeval()
        isDrained = false
        lastDrain = .now
        let end = events.count + limit
        while events.count < end {
            let status = amqp_simple_wait_frame_noblock(state, &frame, &noWait)
            if status == AMQP_STATUS_TIMEOUT.rawValue {
                isDrained = true
                return
            }
            try check(status, "receive")
            try handle(frame, &events)
        }
    }

    /// Waits until the broker has sent something, `wakeUp` is readable, or `timeout` has passed. Call only after ``receive(into:limit:)``.
    /// - Parameter wakeUp: a descriptor that another thread makes readable.
    package func wait(orUntil wakeUp: Int32, timeout: Duration) throws(RabbitMQError) {
        try requireUsable("wait")
        // The socket does not show frames that the library holds already.
        guard isDrained, earlyEvents.isEmpty, amqp_frames_enqueued(state) == 0, amqp_data_in_buffer(state) == 0 else { return }
        let (seconds, attoseconds) = timeout.components
        let milliseconds = Int32(clamping: seconds * 1000 + attoseconds / 1_000_000_000_000_000)
        var descriptors = [
            pollfd(fd: amqp_get_sockfd(state), events: Int16(POLLIN), revents: 0), pollfd(fd: wakeUp, events: Int16(POLLIN), revents: 0),
        ]
        // An interrupted or failed poll is a short wait: the next receive finds the fault.
        _ = poll(&descriptors, 2, max(0, milliseconds))
    }

    /// Receives on behalf of a call that is about to write. librabbitmq's publish reads from the socket without a deadline once the
    /// heartbeat is overdue (#780); receiving first turns that into an error.
    func receiveBeforeWriting() throws(RabbitMQError) {
        guard lastDrain.duration(to: .now) > .seconds(1) else { return }
        var events: [RabbitMQEvent] = []
        swap(&events, &earlyEvents)
        defer { earlyEvents = events }
        try receive(into: &events)
    }

    private func handle(_ frame: amqp_frame_t, _ events: inout [RabbitMQEvent]) throws(RabbitMQError) {
        switch Int32(frame.frame_type) {
        case AMQP_FRAME_METHOD:
            try handle(frame.payload.method, on: frame.channel, &events)
        case AMQP_FRAME_HEADER:
            let header = frame.payload.properties
            let encoded = [UInt8](UnsafeRawBufferPointer(start: header.raw.bytes, count: header.raw.len))
            guard frame.channel == assemblyChannel,
                assembly.header(properties: RabbitMQProperties(encoded: encoded), bodySize: header.body_size, maximum: maximumBodyBytes)
            else { throw dead(RabbitMQError(.malformed, "receive", "a header without a message")) }
            finishMessage(&events)
        case AMQP_FRAME_BODY:
            let fragment = frame.payload.body_fragment
            guard frame.channel == assemblyChannel, assembly.append(UnsafeRawBufferPointer(start: fragment.bytes, count: fragment.len))
            else {
                throw dead(RabbitMQError(.malformed, "receive", "a body longer than its header said"))
            }
            finishMessage(&events)
        default:
            throw dead(RabbitMQError(.malformed, "receive", "unexpected frame type \(frame.frame_type)"))
        }
    }

    private func finishMessage(_ events: inout [RabbitMQEvent]) {
        guard let event = assembly.finish() else { return }
        events.append(event)
        amqp_maybe_release_buffers(state)
    }

    private func handle(_ method: amqp_method_t, on channel: amqp_channel_t, _ events: inout [RabbitMQEvent]) throws(RabbitMQError) {
        guard let decoded = method.decoded else { throw dead(RabbitMQError(.malformed, "receive", "a method without content")) }
        switch method.id {
        case MethodID.basicDeliver:
            guard assembly.begin(decoded.load(as: amqp_basic_deliver_t.self)) else { throw interleaved }
            assemblyChannel = channel
            return
        case MethodID.basicReturn:
            guard assembly.begin(decoded.load(as: amqp_basic_return_t.self), channel) else { throw interleaved }
            assemblyChannel = channel
            return
        case MethodID.basicAck:
            let ack = decoded.load(as: amqp_basic_ack_t.self)
            events.append(.confirmed(tag: ack.delivery_tag, multiple: ack.multiple != 0, channel: channel))
        case MethodID.basicNack:
            let nack = decoded.load(as: amqp_basic_nack_t.self)
            events.append(.refused(tag: nack.delivery_tag, multiple: nack.multiple != 0, channel: channel))
        case MethodID.basicCancel:
            events.append(.consumerCancelled(consumer: number(decoded.load(as: amqp_basic_cancel_t.self).consumer_tag)))
        case MethodID.connectionBlocked:
            events.append(.blocked(reason: String(decoded.load(as: amqp_connection_blocked_t.self).reason)))
        case MethodID.connectionUnblocked:
            events.append(.unblocked)
        case MethodID.channelFlow:
            // RabbitMQ does not send it; other brokers want an answer.
            var answer = amqp_channel_flow_ok_t(active: decoded.load(as: amqp_channel_flow_t.self).active)
            try check(amqp_send_method(state, channel, MethodID.channelFlowOK, &answer), "channel.flow-ok")
        case MethodID.channelCloseOK: freeChannels.append(channel)
        default:
            throw closed(by: method, on: channel, "receive")
        }
        amqp_maybe_release_buffers(state)
    }

    private var interleaved: RabbitMQError { dead(RabbitMQError(.malformed, "receive", "a message inside a message")) }
}
