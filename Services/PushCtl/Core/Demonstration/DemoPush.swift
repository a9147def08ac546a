import PushModel
import StrictJSON

/// A notification of the demonstration.
struct DemoPush {
    let id: String
    /// When the call that sent it began, in UNIX milliseconds.
    let calledAt: Int64

    /// One line per device: the result of its delivery, and how long the push took from the call to the screen.
    /// - Parameters:
    ///   - status: The notification's status document.
    ///   - screens: The notifications on each device's lock screen.
    func table(_ status: JSONValue, on screens: [(device: DemoDevice, inbox: [JSONValue])]) -> Table {
        var table = Table("DEVICE", "OUTCOME", "ON ITS SCREEN AFTER")
        for (device, inbox) in screens {
            let delivery = status["deliveries"]?.arrayValue?.first {
                $0["installation"]?.stringValue == device.installation.description
            }
            table.add(device.name, delivery.map(outcome) ?? "not addressed", delivery.flatMap { delay($0, inbox) } ?? "-")
        }
        return table
    }

    private func outcome(_ delivery: JSONValue) -> String {
        let waiting = delivery["state"]?.stringValue == "pending" ? delivery["last_attempt"] : nil
        let answer = waiting ?? delivery
        let state = waiting == nil ? delivery["state"]?.stringValue ?? "?" : "waits"
        let words = [answer["status"]?.integerValue.map(String.init), answer["reason"]?.stringValue].compactMap { $0 }
        return words.isEmpty ? state : "\(state) (\(words.joined(separator: " ")))"
    }

    /// Both clocks are this machine's if the simulator runs beside the demonstration.
    private func delay(_ delivery: JSONValue, _ inbox: [JSONValue]) -> String? {
        guard let id = delivery["id"]?.stringValue?.lowercased(),
            let shown = inbox.first(where: { $0["apns_id"]?.stringValue?.lowercased() == id }),
            let shownAt = shown["received_at"]?.stringValue.flatMap(RFC3339.milliseconds)
        else { return nil }
        let milliseconds = max(0, shownAt - calledAt)
        return milliseconds < 1000 ? "\(milliseconds) ms" : "\(milliseconds / 1000).\(milliseconds % 1000 / 100) s"
    }
}
