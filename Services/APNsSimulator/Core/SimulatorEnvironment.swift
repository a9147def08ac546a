/// Which of Apple's two worlds a port stands for (APNS.md 1.1).
package enum SimulatorEnvironment: String, Sendable, CaseIterable, Hashable {
    case production, sandbox
}
