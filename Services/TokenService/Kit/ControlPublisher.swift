package import Broker
package import PushModel

/// Puts messages on the control stream and waits, for a while, until the broker has them.
package struct ControlPublisher: Sendable {
    private let stream: Publisher
    private let copies: Publisher
    private let topology: Topology
    private let patience: Duration

    /// - Parameters:
    ///   - stream: Everything that it publishes goes to the control stream.
    ///   - copies: Gives the dispatchers copies of it.
    ///   - patience: How long an answer waits for the broker's confirm (`docs/promises.md`, 3 and 6).
    package init(stream: Publisher, copies: Publisher, topology: Topology, patience: Duration) {
        self.stream = stream
        self.copies = copies
        self.topology = topology
        self.patience = patience
    }

    /// - Returns: Whether the broker has confirmed each message. It may have stored an unconfirmed one too.
    package func publish(_ messages: [ControlMessage]) async -> [Bool] {
        let entries = messages.map(message)
        // A dispatcher that gets a copy, and not the entry, knows that its reader of the stream is late. No answer waits for it.
        copies.publish(
            entries.map { entry in
                var copy = entry
                copy.exchange = topology.controlCopiesExchange
                copy.isMandatory = false
                return copy
            }
        ) { _ in }
        return await stream.publish(entries, deadline: patience).map(\.isConfirmed)
    }

    private func message(_ control: ControlMessage) -> OutgoingMessage {
        OutgoingMessage(
            exchange: "", routingKey: topology.controlStream, messageID: .timeOrdered(milliseconds: UnixTime.milliseconds()),
            contentType: ControlMessage.contentType, body: control.encoded())
    }
}
