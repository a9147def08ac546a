@testable import APNs

/// The JSON of an error answer, and all decisions that follow from it.
enum FuzzErrorBody {
    static func run(_ bytes: [UInt8]) {
        let body = APNsErrorBody(bytes)
        if let reason = body.reason { precondition(!reason.isEmpty && reason.utf8.count <= 128, "ends in outcome messages") }
        if let timestamp = body.timestamp { precondition(timestamp > 0, "a moment") }
        var totals = APNsPoolSnapshot.Totals()
        for status in [0, 200, 400, 403, 410, 429, 500, 503] {
            _ = APNsMeaning(status: status, reason: body.reason)
            totals.countGoAway(reason: body.reason)
        }
        precondition(totals.goAways.count == 1, "labels of a closed set")
    }
}
