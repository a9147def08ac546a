import Broker
import ChaosLedger
import Glibc
import PushModel

/// Faults of RabbitMQ and PostgreSQL.
extension FaultInjector {
    // MARK: RabbitMQ

    /// Its supervisor starts it again.
    func endBroker(cleanly: Bool) async throws {
        let starts = platform.broker.program.starts
        var record = begin(cleanly ? .stop : .kill, "rabbitmq", process: platform.broker.processID)
        if cleanly {
            try await platform.broker.control(["stop"])
        } else {
            _ = platform.broker.signal(SIGKILL)
        }
        try await waitUntil("RabbitMQ is gone", within: .seconds(60)) { platform.broker.program.starts > starts }
        end(&record)
        try await recover(&record) {
            guard await platform.broker.isReady() else { return false }
            return await everythingIsReady()
        }
    }

    func freezeBroker(seconds: Double) async throws {
        var record = begin(.freeze, "rabbitmq", process: platform.broker.signal(SIGSTOP))
        try await Task.sleep(for: .seconds(seconds))
        _ = platform.broker.signal(SIGCONT)
        end(&record)
        try await recover(&record) { await everythingIsReady() }
    }

    func alarm(seconds: Double) async throws {
        var record = begin(.alarm, "rabbitmq")
        try await platform.broker.control(["set_vm_memory_high_watermark", "absolute", "1MB"])
        try await Task.sleep(for: .seconds(seconds))
        try await platform.broker.control(["set_vm_memory_high_watermark", "0.4"])
        end(&record)
        try await recover(&record) { await everythingIsReady() }
    }

    func fillDisk(seconds: Double) async throws {
        var record = begin(.disk, "rabbitmq")
        try await platform.broker.control(["set_disk_free_limit", "900000GB"])
        try await Task.sleep(for: .seconds(seconds))
        try await platform.broker.control(["set_disk_free_limit", "50MB"])
        end(&record)
        try await recover(&record) { await everythingIsReady() }
    }

    func limitQueues(seconds: Double) async throws {
        var record = begin(.queueLimit, "rabbitmq")
        try await platform.broker.control(
            ["set_policy", "chaos", #"^push\.jobs\."#, #"{"max-length":10,"overflow":"reject-publish"}"#, "--apply-to", "queues"])
        try await Task.sleep(for: .seconds(seconds))
        try await platform.broker.control(["clear_policy", "chaos"])
        end(&record)
        try await recover(&record) { await everythingIsReady() }
    }

    /// Deletes an empty queue only, because an operator who deletes a queue also deletes its messages.
    func deleteQueue() async throws {
        var record = begin(.queueDeleted, "rabbitmq")
        try await platform.broker.control(["delete_queue", Topology().retryQueue(.now, .fifteenMinutes), "--if-empty"])
        end(&record)
        try await recover(&record) { await everythingIsReady() }
    }

    func revokePermissions(seconds: Double) async throws {
        var record = begin(.permissions, "rabbitmq")
        try await platform.broker.control(["set_permissions", "-p", "/", "guest", ".*", "^$", ".*"])
        try await Task.sleep(for: .seconds(seconds))
        try await platform.broker.control(["set_permissions", "-p", "/", "guest", ".*", ".*", ".*"])
        end(&record)
        try await recover(&record) { await everythingIsReady() }
    }

    // MARK: PostgreSQL

    func terminateBackends() async throws {
        var record = begin(.backendKill, "postgres")
        try await platform.database.query(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()")
        end(&record)
        try await recover(&record) { await everythingIsReady() }
    }

    func killPostgres() async throws {
        let database = platform.database
        let starts = database.program.starts
        var record = begin(.kill, "postgres", process: database.program.signal(SIGKILL))
        try await waitUntil("PostgreSQL is gone") { database.program.starts > starts }
        end(&record)
        try await recover(&record) {
            guard await database.isReady() else { return false }
            return await everythingIsReady()
        }
    }

    /// The postmaster and every process that serves a connection.
    func freezePostgres(seconds: Double) async throws {
        guard let postmaster = platform.database.program.processID else { throw ChaosError("PostgreSQL does not run") }
        let pids = try await platform.database.query(
            "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()")
        let processes = [postmaster] + pids.split(separator: "\n").compactMap { Int32($0) }
        var record = begin(.freeze, "postgres", process: postmaster)
        for process in processes { _ = Glibc.kill(process, SIGSTOP) }
        try await Task.sleep(for: .seconds(seconds))
        for process in processes { _ = Glibc.kill(process, SIGCONT) }
        end(&record)
        try await recover(&record) { await everythingIsReady() }
    }

    /// The primary dies for good, and the standby with more of the commits takes over.
    func failOver() async throws {
        var record = begin(.failover, "postgres", process: platform.database.program.processID)
        try await platform.databases.failOver()
        end(&record)
        try await recover(&record) { await databasesAreReady() }
    }

    /// Meanwhile commits are on the primary and the other standby.
    func kill(_ standby: PostgresServer, awayFor seconds: Double) async throws {
        var record = begin(.kill, "standby", process: standby.program.processID, detail: standby.name)
        await standby.program.stop(SIGKILL)
        try await Task.sleep(for: .seconds(seconds))
        try standby.program.start()
        end(&record)
        try await recover(&record) { await databasesAreReady() }
    }

    /// The next fault waits for the standbys too: with one of two away, it could take the last one.
    func databasesAreReady() async -> Bool {
        guard await platform.databases.everyStandbyFollows() else { return false }
        return await everythingIsReady()
    }
}
