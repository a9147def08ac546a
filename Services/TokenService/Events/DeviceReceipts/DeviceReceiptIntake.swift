import HTTPTypes
import Hummingbird
import Metrics
package import Observability
package import Postgres
package import PushModel
package import TokenServiceApps
import TokenServiceKit
package import TokenServiceRegistry
package import TokenServiceSending

/// `POST /v1/apps/{app}/installations/{id}/receipts`: counts what devices report. A broadcast's devices report within minutes, so requests
/// that come together share a commit.
package struct DeviceReceiptIntake: Sendable {
    private static let maximumBatch = 128
    private static let worthwhileBatch = 32
    private static let concurrentBatches = 2
    /// The most receipts of one batch. Most requests have one.
    static let maximumReceipts = 512

    private let queue: CommitQueue<Item, [DeviceReceipt.Result]>

    private struct Item: Sendable {
        let app: App.ID
        let installation: PushID
        let receipts: [DeviceReceipt]
        /// See ``ExpectedOwner/device(_:expecting:)``.
        let expectedOwner: ExpectedOwner
    }

    package init(pool: PostgresPool) {
        queue = CommitQueue(
            "/device-receipts", maximumBatch: Self.maximumBatch, worthwhileBatch: Self.worthwhileBatch, concurrency: Self.concurrentBatches,
            maximumWeight: Self.maximumReceipts, weight: { Self.weight(of: $0.receipts) },
            commit: { items, onward in
                await pool.commitSeries(items, onward: onward) { items, session in
                    session.inParts(items) { part in
                        try session.retryingTransaction { session in try Self.count(part, in: session) }
                    }
                }
            })
    }

    static func weight(of receipts: [DeviceReceipt]) -> Int { receipts.count }

    /// - Parameter expectedOwner: The installation's owner; another one is no reporter.
    /// - Returns: One result for each receipt, in their order.
    /// - Throws: ``CredentialRevoked``, and then nothing is counted; `PostgresError`; ``CommitQueueFull``.
    package func count(
        _ receipts: [DeviceReceipt], of installation: PushID, app: App, expectedOwner: ExpectedOwner
    ) async throws -> [DeviceReceipt.Result] {
        try await queue.submit(Item(app: app.id, installation: installation, receipts: receipts, expectedOwner: expectedOwner))
    }

    private static func count(
        _ items: [Item], in session: PostgresSession
    ) throws -> [Result<[DeviceReceipt.Result], any Error>] {
        let allowed = try allowed(items, in: session)
        let counted = try DeviceReceiptStore(session: session).count(allowed.map(\.report))
        var answers = items.map { _ in Result<[DeviceReceipt.Result], any Error>.failure(CredentialRevoked()) }
        for (item, results) in zip(allowed, counted) { answers[item.index] = .success(results) }
        return answers
    }

    /// The reports of items whose installation has the expected owner, with the items' indices.
    private static func allowed(_ items: [Item], in session: PostgresSession) throws -> [(index: Int, report: DeviceReceiptStore.Report)] {
        let rows = try session.execute(
            """
            SELECT e.index, i.owner, coalesce(i.owner_epoch, 0) AS owner_epoch
            FROM unnest(\(Array(items.indices))::bigint[], \(items.map(\.app))::bigint[], \(items.map(\.installation))::uuid[])
                AS e (index, app, installation)
            LEFT JOIN installations i ON i.app_id = e.app AND i.id = e.installation ORDER BY e.index
            """)
        return try rows.compactMap { row in
            let (index, epoch): (Int, Int64) = (try row["index"], try row["owner_epoch"])
            let item = items[index]
            do { try item.expectedOwner.checkPresent(row["owner"], epoch: epoch) } catch is CredentialRevoked { return nil }
            let report = DeviceReceiptStore.Report(
                app: item.app, installation: item.installation, ownerEpoch: epoch, receipts: item.receipts)
            return (index: index, report: report)
        }
    }
}

/// Counts device receipts by their result.
package struct DeviceReceiptMetrics: Sendable {
    private let receipts: MetricSeries<Counter>

    package init(_ registry: PrometheusMetrics) {
        receipts = registry.counters(
            "push_token_service_device_receipts_total", ["result"], "Receipts that devices reported. Result: counted, repeated, refused.")
        for word in DeviceReceipt.Result.words { _ = receipts[word] }
    }

    func deviceReceipts(_ results: [DeviceReceipt.Result]) {
        for (word, number) in Tally(results.lazy.map(\.word)).counts { receipts[word].increment(by: Int(number)) }
    }
}

/// `POST /v1/apps/{app}/installations/{id}/receipts`
package struct DeviceReceiptsController: Sendable {
    package let intake: DeviceReceiptIntake
    package let metrics: DeviceReceiptMetrics

    package init(intake: DeviceReceiptIntake, metrics: DeviceReceiptMetrics) {
        self.intake = intake
        self.metrics = metrics
    }

    package func bind(to router: some RouteBinder) { router.on(.reportReceipts, report) }

    @Sendable private func report(_ call: APICall) async throws -> Response {
        let id = try call.id("id")
        let receipts = try await call.body().object { DeviceReceipt.list(&$0) }
        let results = try await intake.count(receipts, of: id, app: call.app(), expectedOwner: call.owner(expected: .anyone))
        metrics.deviceReceipts(results)
        return JSONAnswer.response(.ok, DeviceReceipt.response, results)
    }
}

extension APIRoute {
    package static let reportReceipts = APIRoute(.post, "/v1/apps/{app}/installations/{id}/receipts", .devices, forDevices: true)
}

extension Operation {
    package static let reportReceipts = Operation(
        .reportReceipts, "reportDeviceReceipts", "Report what became of notifications on the device",
        """
        Of notifications that were sent with `device_receipts`: their payload's key `push-receipt` names notification and job. Each event \
        of a delivery counts once, up to 30 days after it was sent. Receipts that are refused are listed, and the others count all the same.
        """,
        request: .json(DeviceReceipt.request), answers: [Answer(200, "One result for each.", .json(DeviceReceipt.response))])
}
