import PushAPI
import PushModel
import StrictJSON

/// A notification of the demonstration.
struct DemoPush {
    let id: String
    /// When the call that sent it began, in UNIX milliseconds.
    let calledAt: Int64

    /// One line per device: the result of its delivery, and how long the push took from the call to the screen.
    /// - Parameters:
    ///   - screens: The notifications on each device's lock screen.
    func table(_ status: PushAPI.NotificationStatus, on screens: [(device: DemoDevice, inbox: [JSONValue])]) -> Table {
        var table = Table("DEVICE", "OUTCOME", "ON ITS SCREEN AFTER")
        for (device, inbox) in screens {
            let delivery = status.deliveries.first { $0.installation == device.installation }
            table.add(device.name, delivery.map(outcome) ?? "not addressed", delivery.flatMap { delay($0, inbox) } ?? "-")
        }
        return table
    }

    private func outcome(_ delivery: PushAPI.Delivery) -> String {
        let waiting = delivery.state == "pending" ? delivery.lastAttempt : nil
        let (status, reason) = waiting.map { ($0.status, $0.reason) } ?? (delivery.status, delivery.reason)
        let words = [status.map(String.init), reason].compactMap { $0 }
        return "\(waiting == nil ? delivery.state : "waits")\(words.isEmpty ? "" : " (\(words.joined(separator: " ")))")"
    }

    /// Both clocks are this machine's if the simulator runs beside the demonstration.
    private func delay(_ delivery: PushAPI.Delivery, _ inbox: [JSONValue]) -> String? {
        guard let shown = inbox.first(where: { $0["apns_id"]?.stringValue?.lowercased() == delivery.id }),
            let shownAt = shown["received_at"]?.stringValue.flatMap(RFC3339.milliseconds)
        else { return nil }
        let milliseconds = max(0, shownAt - calledAt)
        return milliseconds < 1000 ? "\(milliseconds) ms" : "\(milliseconds / 1000).\(milliseconds % 1000 / 100) s"
    }
}
