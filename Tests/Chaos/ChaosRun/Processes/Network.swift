import Foundation
import TestSupport

/// The machines of a run: each is a network namespace of its own with one address, and all of them are on one bridge.
///
/// The bridge and ``hub`` are in the namespace of this program, which `deploy/chaos` makes, so that the run cannot be reached from outside.
/// Needs root and iproute2.
final class Network: Sendable {
    private static let subnet = "10.99.0"
    private static let tool = "/usr/sbin/ip"
    private static let bridge = "push"
    /// The address of this program and of the simulated Apple, neither of which is ever cut off.
    static let hub = "\(subnet).1"

    let machines: [String: Machine]
    /// By name, so that two machines are always asked for in the same way.
    subscript(name: String) -> Machine? { machines[name] }

    /// - Parameter list: The file in which `deploy/chaos` finds the namespaces that a killed run has left behind.
    init(of names: [String], list: String) async throws {
        var machines: [String: Machine] = [:]
        for (number, name) in names.enumerated() {
            machines[name] = Machine(
                name: name, address: "\(Self.subnet).\(11 + number)", namespace: "push-\(getpid())-\(name)", cable: "cable\(number)")
        }
        self.machines = machines
        try Data(machines.values.map { "\($0.namespace)\n" }.joined().utf8).write(to: URL(filePath: list))
        for command in [
            "link add \(Self.bridge) type bridge", "addr add \(Self.hub)/24 dev \(Self.bridge)",
            "link set \(Self.bridge) up",
        ] { try await Self.ip(command) }
        for machine in machines.values {
            for command in [
                "netns add \(machine.namespace)",
                "link add \(machine.cable) type veth peer name eth0 netns \(machine.namespace)",
                "link set \(machine.cable) master \(Self.bridge) up",
                "-n \(machine.namespace) addr add \(machine.address)/24 dev eth0", "-n \(machine.namespace) link set eth0 up",
                "-n \(machine.namespace) link set lo up",
            ] { try await Self.ip(command) }
        }
    }

    /// Disconnects the machine, or connects it again. Meanwhile no byte goes in or out, and no program gets an error.
    func setCable(of machine: Machine, isIn: Bool) async throws { try await Self.ip("link set \(machine.cable) \(isIn ? "up" : "down")") }

    /// Drops the packets between the two machines. Both still reach all the others.
    func separate(_ one: Machine, _ other: Machine) async throws { try await setRoutes("add", one, other) }

    /// Ends ``separate(_:_:)``.
    func join(_ one: Machine, _ other: Machine) async throws { try await setRoutes("del", one, other) }

    private func setRoutes(_ verb: String, _ one: Machine, _ other: Machine) async throws {
        try await Self.ip("-n \(one.namespace) route \(verb) blackhole \(other.address)/32")
        try await Self.ip("-n \(other.namespace) route \(verb) blackhole \(one.address)/32")
    }

    /// Removes the network after its programs have ended.
    func remove() async {
        for machine in machines.values {
            do { try await Self.ip("netns delete \(machine.namespace)") } catch { say("    \(machine.namespace) is still there: \(error)") }
        }
    }

    private static func ip(_ command: String) async throws { try await Tool.run(tool, command.split(separator: " ").map(String.init)) }
}

/// One machine of a ``Network``.
struct Machine: Sendable {
    let name: String
    let address: String
    let namespace: String
    /// The end of its cable that is on the bridge.
    let cable: String

    /// The beginning of a command that runs there. The program keeps the process id, because nsenter(1) becomes it.
    fileprivate var prefix: [String] { ["/usr/bin/nsenter", "--net=/run/netns/\(namespace)"] }
}

extension ServerCommand {
    /// - Parameter machine: The machine for it; nil for the machine of this program.
    func words(on machine: Machine?) -> [String] { (machine?.prefix ?? []) + [executable] + arguments }
}
