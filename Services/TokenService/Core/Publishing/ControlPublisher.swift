package import Broker
package import PushModel

/// Puts messages on the control stream and waits, for a while, until the broker has them.
package struct ControlPublisher: Sendable {
    private let publisher: Publisher
    private let topology: Topology
    private let patience: Duration

    /// - Parameter patience: How long an answer waits for the broker's confirm (`docs/promises.md`, 3 and 6).
    package init(publisher: Publisher, topology: Topology, patience: Duration) {
        self.publisher = publisher
        self.topology = topology
        self.patience = patience
    }

    /// - Returns: For each message, whether the broker has confirmed it. It may have stored an unconfirmed one too.
    package func publish(_ messages: [ControlMessage]) async -> [Bool] {
        await publisher.publish(messages.map(message), deadline: patience).map(\.isConfirmed)
    }

    private func message(_ control: ControlMessage) -> OutgoingMessage {
        OutgoingMessage(
            exchange: "", routingKey: topology.controlStream, messageID: .timeOrdered(milliseconds: UnixTime.milliseconds()),
            contentType: ControlMessage.contentType, body: control.encoded())
    }
}
