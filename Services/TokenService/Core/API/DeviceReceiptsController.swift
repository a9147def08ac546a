import Hummingbird
import PushModel

/// `POST /v1/apps/{app}/installations/{id}/receipts`
struct DeviceReceiptsController: Sendable {
    let intake: DeviceReceiptIntake
    let metrics: TokenServiceMetrics

    func bind(to router: some RouteBinder) { router.on(.reportReceipts, report) }

    @Sendable private func report(_ call: APICall) async throws -> Response {
        let id = try call.id("id")
        let receipts = try await call.body().object { DeviceReceipt.list(&$0) }
        let results = try await call.byDevice {
            try await intake.count(receipts, of: id, app: call.app(), expectedOwner: call.owner(expected: .anyone))
        }
        metrics.deviceReceipts(results)
        return JSONAnswer.response(.ok, DeviceReceipt.response, results)
    }
}
