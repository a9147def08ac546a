package import NIOCore
import Postgres
package import PushModel
import ServiceLifecycle
import StrictJSON
package import TokenServiceApps
package import TokenServiceKit

/// `GET /v1/apps/{app}/export`: every registered installation as one line, in order of id, in the shape that an import takes.
///
/// No transaction spans pages: the export of a registry in use holds for each installation what was true when its page was read.
/// One page is in memory at a time, and the next is read when the client has taken this one.
package struct InstallationExport: Sendable {
    package typealias Page = @Sendable (_ app: App, _ after: PushID?, _ limit: Int) async throws -> [ExportedInstallation]

    /// How many installations a page has, at most.
    package static let pageSize = 200

    /// None: there are no more.
    fileprivate let page: Page
    /// How long one page may wait for the database.
    private let patience: Duration
    private let errors: InternalErrors

    package init(patience: Duration = .seconds(30), errors: InternalErrors, page: @escaping Page) {
        self.page = page
        self.patience = patience
        self.errors = errors
    }

    package func begin(app: App, after cursor: PushID?) -> Answers { Answers(exporting: self, app: app, cursor: cursor) }

    /// The parts of the answer, in turn. One owner.
    package struct Answers {
        private let exporting: InstallationExport
        private let app: App
        private var cursor: PushID?
        private var count = 0
        private var isOver = false

        fileprivate init(exporting: InstallationExport, app: App, cursor: PushID?) {
            self.exporting = exporting
            self.app = app
            self.cursor = cursor
        }

        /// The next page; nil after the last.
        package mutating func next() async -> ByteBuffer? {
            guard !isOver else { return nil }
            var lines = JSONLines()
            do {
                if Task.isShuttingDownGracefully { throw Stopping() }
                let (app, cursor) = (app, cursor)
                let page = try await exporting.patiently { try await exporting.page(app, cursor, InstallationExport.pageSize) }
                for installation in page { lines.installation(installation) }
                count += page.count
                self.cursor = page.last?.id ?? cursor
                if page.isEmpty {
                    isOver = true
                    lines.exported(count: count)
                }
                return lines.buffer
            } catch {
                isOver = true
                return exporting.broken(error, after: cursor)
            }
        }
    }

    private struct Stopping: Error {}

    fileprivate func broken(_ error: any Error, after cursor: PushID?) -> ByteBuffer {
        let fault =
            error is Stopping
            ? BulkFault(id: nil, code: "stopping", detail: "this process stops; go on after the id in after", isRetryable: true)
            : BulkFault(id: nil, errors.answer(to: error, "An export failed"))
        var lines = JSONLines()
        lines.broken(fault, after: cursor)
        return lines.buffer
    }

    /// Reads, and retries while the database is away.
    fileprivate func patiently<Value>(_ read: () async throws -> Value) async throws -> Value {
        var wait = DatabaseWait(patience: patience)
        while true {
            do {
                return try await read()
            } catch let error as PostgresError where error.isUnavailable && !wait.isOver {
                try await wait.pause()
            }
        }
    }
}

/// How long a stream waits for a database that is away: pauses that double from 50 ms to 2 s, until its time is up.
struct DatabaseWait {
    private let deadline: ContinuousClock.Instant
    private var next = Duration.milliseconds(50)

    init(patience: Duration) { deadline = .now + patience }

    /// Whether another pause would exceed the limit.
    var isOver: Bool { ContinuousClock.now + next >= deadline }

    mutating func pause() async throws {
        try await Task.sleep(for: next)
        next = min(next * 2, .seconds(2))
    }
}
