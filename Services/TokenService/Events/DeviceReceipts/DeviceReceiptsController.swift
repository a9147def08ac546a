import HTTPTypes
import Hummingbird
import PushModel
package import TokenServiceApps
import TokenServiceKit
import TokenServiceRegistry
import TokenServiceSending

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
        let results = try await call.byDevice {
            try await intake.count(receipts, of: id, app: call.app(), expectedOwner: call.owner(expected: .anyone))
        }
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
        Of notifications that were sent with `device_receipts`: their payload's key `push-receipt` names notification and job. Each event of a \
        delivery counts once, up to 30 days after it was sent. Receipts that are refused are listed, and the others count all the same.
        """,
        request: .json(DeviceReceipt.request), answers: [Answer(200, "One result for each.", .json(DeviceReceipt.response))])
}
