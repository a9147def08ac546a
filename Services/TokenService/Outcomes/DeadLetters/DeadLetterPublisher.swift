package import Broker
package import PushModel

/// Sends messages that no process can handle to the dead-letter queue with their reason, where an operator finds them.
package struct DeadLetterPublisher: Sendable {
    /// The header that says why.
    package static let reasonHeader = "push-reason"
    /// The header that names the message's origin.
    package static let sourceHeader = "push-source"

    private static let patience: Duration = .seconds(10)

    private let publisher: Publisher
    private let topology: Topology

    package init(publisher: Publisher, topology: Topology) {
        self.publisher = publisher
        self.topology = topology
    }

    /// - Parameter part: The only one of the message's outcomes that is dead; nil for the whole message.
    /// - Returns: whether the broker has it there; only then may it be acknowledged here.
    package func deadLetter(_ message: ReceivedMessage, part: OutcomeEvent? = nil, reason: String) async -> Bool {
        let letter = OutgoingMessage(
            exchange: topology.deadExchange, routingKey: message.routingKey, messageID: part?.id ?? message.messageID ?? .random(),
            contentType: message.contentType.isEmpty ? "application/octet-stream" : message.contentType,
            headers: [Self.reasonHeader: reason, Self.sourceHeader: message.queue], body: part?.encoded() ?? message.body)
        return await publisher.publish([letter], deadline: Self.patience).allSatisfy(\.isConfirmed)
    }
}
