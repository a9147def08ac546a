import StrictJSON

/// One row per notification.
func notificationTable(_ notifications: [JSONValue]) -> Table {
    var table = Table("NOTIFICATION", "ACCEPTED", "STATE", "TO", "LANE", "TYPE", "DELIVERIES", "PENDING")
    for notification in notifications {
        let counts = notification["counts"]
        table.add(
            notification.shown("id"), notification.shown("accepted_at"), notification.shown("state"), addressText(notification["to"]),
            notification.shown("lane"), notification.shown("push_type"), number(counts?["total"]), number(counts?["pending"]))
    }
    return table
}

/// The facts about one notification, a line each.
func notificationFacts(_ status: JSONValue) -> String {
    let names = ["accepted_at", "not_before", "local_time", "expires_at", "completed_at", "cancelled_at", "cancel_reason"]
    let facts = names.compactMap { name in status[name]?.stringValue.map { "\(name) \($0)" } }
    let head = "\(status.shown("id")), \(status.shown("state")), to \(addressText(status["to"]))"
    return ([head, "push type \(status.shown("push_type")), lane \(status.shown("lane")), receipts \(status.shown("receipts"))"] + facts)
        .joined(separator: "\n")
}

/// The ends of its deliveries, by APNs' answers.
func outcomeTable(_ status: JSONValue) -> Table {
    var table = Table("OUTCOME", "STATUS", "REASON", "DELIVERIES")
    if let pending = status["counts"]?["pending"]?.integerValue, pending > 0 { table.add("pending", "-", "-", "\(pending)") }
    for reason in status["reasons"]?.arrayValue ?? [] {
        table.add(reason.shown("class"), number(reason["status"]), reason.shown("reason"), number(reason["count"]))
    }
    return table
}

func stepTable(_ answer: JSONValue) -> Table {
    var table = Table("WHEN", "WHAT", "INSTALLATION", "WHY")
    for step in answer["steps"]?.arrayValue ?? [] {
        table.add(
            step["at"]?.stringValue ?? "not recorded", step.shown("what"), step["detail"]?["installation"]?.stringValue ?? "-",
            step.shown("why") + (step["detail"]?["hold"]?.stringValue.map { " Hold \($0)." } ?? ""))
    }
    return table
}

/// The addressees of a notification, in few words.
private func addressText(_ address: JSONValue?) -> String {
    guard let address, let kind = address["kind"]?.stringValue else { return "-" }
    let names = ["user", "installation", "tags", "channel"]
    let named = names.lazy.compactMap { address[$0]?.stringValue }.first
    if let named { return "\(kind) \(named)" + (address["activity"]?.stringValue.map { " activity \($0)" } ?? "") }
    return address["count"]?.integerValue.map { "\($0) \(kind)" } ?? kind
}

private func number(_ value: JSONValue?) -> String { value?.integerValue.map(String.init) ?? "-" }

extension JSONValue {
    /// A text field for a table's cell.
    fileprivate func shown(_ name: String) -> String { self[name]?.stringValue ?? "-" }
}
