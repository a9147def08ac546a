package import Broker
import Observability
package import PushModel

/// Deliveries → jobs → confirms → settlement (DESIGN.md section 4, step 2). What it cannot publish is left to the ``Relay``.
package final class JobPublisher: Sendable {
    private static let patience = Duration.seconds(10)

    private let publisher: Publisher
    private let topology: Topology
    private let lease: Duration
    private let settlements: PublishSettlements

    /// - Parameter lease: How long a notification is this process's alone before a relay may take it over.
    package init(publisher: Publisher, topology: Topology, lease: Duration, settlements: PublishSettlements) {
        self.publisher = publisher
        self.topology = topology
        self.lease = lease
        self.settlements = settlements
    }

    /// The lease of a notification that is about to be accepted. Zero while the broker is away: a lease would only delay the relay,
    /// and messages that pile up in memory would be lost with the process.
    package var leaseForNewcomers: Double { publisher.state == .ready ? lease / .seconds(1) : 0 }

    /// Hands a committed notification's jobs to the broker and returns at once; the outcome is written down later.
    package func publish(_ notification: Notification, _ deliveries: [PushJob.Delivery]) {
        let id = notification.id
        settlements.began(id)
        publisher.publish(messages(notification, deliveries)) { [settlements] outcomes in
            settlements.ended(id, isPublished: outcomes.allSatisfy(\.isConfirmed))
        }
    }

    /// Publishes jobs whose outbox is elsewhere, and waits for the broker's word.
    /// - Returns: whether all of them are confirmed.
    package func publishConfirmed(_ claimed: [OutboxStore.Claimed]) async -> Bool {
        let messages = claimed.flatMap { item in self.messages(item.notification, item.deliveries) }
        return await publisher.publish(messages, deadline: Self.patience).allSatisfy(\.isConfirmed)
    }

    private func messages(_ notification: Notification, _ deliveries: [PushJob.Delivery]) -> [OutgoingMessage] {
        notification.jobs(deliveries).map { job in
            OutgoingMessage(
                exchange: topology.jobsExchange, routingKey: topology.jobRoutingKey(job.lane),
                messageID: .timeOrdered(milliseconds: UnixTime.milliseconds()), contentType: PushJob.contentType,
                headers: [TraceContext.headerName: notification.traceparent], body: job.encoded())
        }
    }
}
