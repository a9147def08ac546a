package import Broker
import PushModel

/// Puts committed fences on the control stream and waits, for a while, until the broker has them.
package struct FencePublisher: Sendable {
    private let publisher: Publisher
    private let topology: Topology
    private let patience: Duration
    private let settlements: PublishSettlements

    /// - Parameter patience: How long an answer waits for the broker's confirm (DESIGN.md section 8, promise 3).
    package init(publisher: Publisher, topology: Topology, patience: Duration, settlements: PublishSettlements) {
        self.publisher = publisher
        self.topology = topology
        self.patience = patience
        self.settlements = settlements
    }

    /// A fence may be published twice: it says the same twice.
    /// - Returns: `effective` when the broker has confirmed all of them, `pending` when not yet, `none` where there are none.
    package func publish(_ fences: [Fence]) async -> FenceState {
        guard !fences.isEmpty else { return .none }
        let outcomes = await publisher.publish(fences.map(message), deadline: patience)
        let confirmed = zip(fences, outcomes).filter { $1.isConfirmed }.map(\.0.id)
        settlements.published(fences: confirmed)
        return confirmed.count == fences.count ? .effective : .pending
    }

    private func message(_ fence: Fence) -> OutgoingMessage {
        let control = ControlMessage.fence(
            app: fence.app, installation: fence.installation, epochsBelow: fence.epochsBelow, at: fence.at)
        return OutgoingMessage(
            exchange: "", routingKey: topology.controlStream, messageID: .timeOrdered(milliseconds: UnixTime.milliseconds()),
            contentType: ControlMessage.contentType, body: control.encoded())
    }
}
