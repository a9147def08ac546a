import ChaosLedger
import Glibc
import TestSupport

/// Faults of our own processes.
extension FaultInjector {
    func kill(_ service: Platform.Service) async throws {
        let program = service.program
        let starts = program.starts
        var record = begin(.kill, program.name, process: program.processID)
        program.signal(SIGKILL)
        end(&record)
        try await recover(&record) { program.starts > starts ? await isReady(service) : false }
    }

    func freeze(_ service: Platform.Service, seconds: Double) async throws {
        var record = begin(.freeze, service.program.name, process: service.program.processID)
        service.program.signal(SIGSTOP)
        try await Task.sleep(for: .seconds(seconds))
        service.program.signal(SIGCONT)
        end(&record)
        try await recover(&record) { await isReady(service) }
    }

    /// A graceful stop, and a new start by the supervisor.
    func stop(_ service: Platform.Service) async throws {
        let program = service.program
        let starts = program.starts
        var record = begin(.stop, program.name, process: program.processID)
        program.signal(SIGTERM)
        try await waitUntil("\(program.name) has stopped gracefully", program, within: .seconds(60)) {
            program.processID == nil || program.starts > starts
        }
        end(&record)
        try await recover(&record) { program.starts > starts ? await isReady(service) : false }
    }

    /// Stops each service gracefully and starts the program of that folder in its place.
    func replace(_ services: [Platform.Service], from folder: String) async throws {
        for service in services {
            let executable = service.program.name.hasPrefix("dispatcher") ? "dispatcher" : "token-service"
            service.program.replace(with: ServerCommand(executable: "\(folder)/\(executable)"))
            try await stop(service)
        }
    }

    /// Allows fewer descriptors than are open already; open ones stay open. libdispatch reads its threads from /proc and ends a program in
    /// which it cannot. Then the supervisor starts another one, as after any crash.
    func starve(_ service: Platform.Service, seconds: Double) async throws {
        guard let id = service.program.processID else { throw ChaosError("\(service.program.name) does not run") }
        let limit = try await Tool.run("/usr/bin/prlimit", ["--pid", "\(id)", "--nofile", "--output", "SOFT", "--noheadings"])
        var record = begin(.descriptors, service.program.name, process: id)
        try await Tool.run("/usr/bin/prlimit", ["--pid", "\(id)", "--nofile=10:"])
        try await Task.sleep(for: .seconds(seconds))
        if service.program.processID == id {
            try await Tool.run("/usr/bin/prlimit", ["--pid", "\(id)", "--nofile=\(limit.filter(\.isNumber)):"])
        } else {
            var death = begin(.kill, service.program.name, process: id)
            end(&death)
            try await recover(&death) { await isReady(service) }
        }
        end(&record)
        try await recover(&record) { await isReady(service) }
    }

    /// Whether every service is ready, after the recovery of a server.
    func everythingIsReady() async -> Bool {
        for service in platform.services where await !isReady(service) { return false }
        return true
    }
}
