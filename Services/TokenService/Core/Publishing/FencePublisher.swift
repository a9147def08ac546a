import PushModel

/// Puts committed fences on the control stream.
package struct FencePublisher: Sendable {
    private let control: ControlPublisher
    private let settlements: PublishSettlements

    package init(control: ControlPublisher, settlements: PublishSettlements) {
        self.control = control
        self.settlements = settlements
    }

    /// A fence may be published twice: the second has no further effect.
    /// - Returns: `effective` if the broker has confirmed all of them, `pending` if not yet, `none` if there are none.
    package func publish(_ fences: [Fence]) async -> FenceState {
        guard !fences.isEmpty else { return .none }
        let confirmed = await control.publish(
            fences.map { .fence(app: $0.app, installation: $0.installation, epochsBelow: $0.epochsBelow, at: $0.at) })
        let published = zip(fences, confirmed).filter(\.1).map(\.0.id)
        settlements.published(fences: published)
        return published.count == fences.count ? .effective : .pending
    }
}
