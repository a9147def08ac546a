internal import CPostgres
internal import Glibc

/// Owns one `PGconn` in non-blocking mode and waits for it with `poll`, always with a deadline. No policy.
///
/// The link is not Sendable: libpq allows one thread at a time per connection (manual 34.20).
final class PostgresLink {
    private let handle: OpaquePointer
    /// Set once the link gave up on the server; libpq's own status would still be OK.
    private(set) var isAbandoned = false
    /// When the connection is old enough to be replaced.
    let expiry: Deadline
    /// Which statements this connection has prepared.
    var prepared = PreparedStatements()

    /// The server's last message, if it came without a request (57P01), or as a warning only (57P02).
    private(set) var farewell: FailureReport?

    init(taking handle: OpaquePointer, lifetime: Duration) {
        self.handle = handle
        expiry = .after(lifetime)
        // Without a receiver libpq writes notices to stderr, and they quote data.
        let owner = Unmanaged.passUnretained(self).toOpaque()  // cannot dangle: deinit ends the connection
        PQsetNoticeReceiver(handle, { owner, notice in PostgresLink.receive(notice, for: owner) }, owner)
    }

    private static func receive(_ notice: OpaquePointer?, for owner: UnsafeMutableRawPointer?) {
        guard let owner, let farewell = FailureReport(farewell: notice) else { return }
        let link = Unmanaged<PostgresLink>.fromOpaque(owner).takeUnretainedValue()
        link.farewell = link.farewell ?? farewell
    }

    deinit { PQfinish(handle) }

    var isAlive: Bool { !isAbandoned && PQstatus(handle) == CONNECTION_OK }
    var isIdle: Bool { isAlive && transactionStatus == PQTRANS_IDLE && PQpipelineStatus(handle) == PQ_PIPELINE_OFF }
    var transactionStatus: PGTransactionStatusType { PQtransactionStatus(handle) }
    var errorMessage: String { String(cString: PQerrorMessage(handle)) }

    /// The link is of no further use, for instance because the answer to an abandoned request may still come.
    func abandon() { isAbandoned = true }

    /// Detects a connection that died while it was idle: `PQstatus` alone returns OK until the first use.
    func isHealthy() -> Bool {
        var descriptor = pollfd(fd: PQsocket(handle), events: Int16(POLLIN), revents: 0)
        // More than once: the server's last message is one read, the end of the connection the next.
        for _ in 0..<8 where isIdle && farewell == nil {
            guard poll(&descriptor, 1, 0) != 0 else { return true }
            guard PQconsumeInput(handle) == 1 else { return false }
            _ = PQisBusy(handle)  // parses what came, and so calls the notice receiver
        }
        return isIdle && farewell == nil
    }

    // MARK: Connecting

    /// `PQconnectPoll` until connected. Throws libpq's message.
    func finishConnecting(deadline: Deadline) throws(PostgresError) {
        var interest = Int16(POLLOUT)
        while true {
            guard wait(for: interest, until: deadline) else { throw failedToConnect("no answer within the connect timeout") }
            switch PQconnectPoll(handle) {
            case PGRES_POLLING_READING: interest = Int16(POLLIN)
            case PGRES_POLLING_WRITING: interest = Int16(POLLOUT)
            case PGRES_POLLING_OK:
                guard PQsetnonblocking(handle, 1) == 0 else { throw failedToConnect(errorMessage) }
                return
            default: throw failedToConnect(errorMessage)
            }
        }
    }

    private func failedToConnect(_ words: String) -> PostgresError {
        PostgresError(.connectionFailed, operation: "connect", message: words.onOneLine)
    }

    // MARK: Sending. Each returns false where libpq refused; `errorMessage` says why, and the connection is to be given up.

    func enterPipeline() -> Bool { PQenterPipelineMode(handle) == 1 }
    func exitPipeline() -> Bool { PQexitPipelineMode(handle) == 1 }
    func sendSync() -> Bool { PQpipelineSync(handle) == 1 }

    /// One command without parameters; not inside a pipeline. May hold several, separated by semicolons.
    func sendSimple(_ sql: String) -> Bool { PQsendQuery(handle, sql) == 1 }

    /// One command without parameters, through the extended protocol, so that it may stand in a pipeline.
    func sendCommand(_ sql: String) -> Bool { PQsendQueryParams(handle, sql, 0, nil, nil, nil, nil, 1) == 1 }

    func sendPrepare(name: String, _ sql: String, types: [PostgresType]) -> Bool {
        PQsendPrepare(handle, name, sql, Int32(types.count), types.map(\.oid)) == 1
    }

    func sendExecute(name: String, _ parameters: ParameterBlock) -> Bool {
        parameters.withArguments { values, lengths, formats in
            PQsendQueryPrepared(handle, name, Int32(parameters.count), values, lengths, formats, 1) == 1
        }
    }

    // MARK: Receiving

    /// The next result; nil if libpq marks the end of one command's results. Sends unsent bytes meanwhile.
    ///
    /// After a lost connection, first gives the results that came, then one with the error, then nil with `isAlive` false.
    /// - Throws: ``AnswerOverdue`` at the deadline.
    func nextResult(deadline: Deadline) throws(AnswerOverdue) -> PostgresResult? {
        while true {
            // A failed flush is not the end: libpq records it, and the server's last message may still be readable.
            let unsent = PQflush(handle) == 1
            guard PQisBusy(handle) == 1 else { return PQgetResult(handle).map(PostgresResult.init(taking:)) }
            guard wait(for: Int16(POLLIN) | (unsent ? Int16(POLLOUT) : 0), until: deadline) else { throw AnswerOverdue() }
            _ = PQconsumeInput(handle)
        }
    }

    /// Blocks the calling thread.
    static func pause(_ duration: Duration) { poll(nil, 0, Int32(clamping: duration.milliseconds(rounding: .up))) }

    /// False at the deadline.
    private func wait(for events: Int16, until deadline: Deadline) -> Bool {
        while true {
            var descriptor = pollfd(fd: PQsocket(handle), events: events, revents: 0)
            guard descriptor.fd >= 0 else { return true }
            let ready = poll(&descriptor, 1, deadline.pollMilliseconds)
            if ready > 0 || (ready < 0 && errno != EINTR) { return true }
            if deadline.isPast { return false }
        }
    }
}

/// The server did not answer in time.
struct AnswerOverdue: Error {}

extension String {
    /// libpq ends its messages with a line feed and puts hints on further lines.
    var onOneLine: String { split(whereSeparator: \.isNewline).map { $0.drop(while: \.isWhitespace) }.joined(separator: " ") }
}
