/// The environment of Apple's that a port simulates.
package enum SimulatorEnvironment: String, Sendable, CaseIterable, Hashable {
    case production, sandbox
}

/// The address and port that the simulator listens on, as Apple has names and ports for each (Apple: Sending notification requests to
/// APNs).
package struct SimulatorPort: Hashable, Sendable {
    package let environment: SimulatorEnvironment
    /// Channels are managed here, and nothing is pushed.
    package let isManagement: Bool

    package init(_ environment: SimulatorEnvironment, isManagement: Bool = false) {
        self.environment = environment
        self.isManagement = isManagement
    }

    /// The key of its setting.
    var setting: String { environment.rawValue + (isManagement ? ".management" : "") + ".port" }

    static let all = [false, true].flatMap { isManagement in
        SimulatorEnvironment.allCases.map { SimulatorPort($0, isManagement: isManagement) }
    }
}
