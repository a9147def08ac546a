import StrictJSON

/// One row per installation.
func installationTable(_ installations: [JSONValue]) -> Table {
    var table = Table("INSTALLATION", "USER", "ACTIVE TOKENS", "LAST REGISTERED", "APP", "SYSTEM", "TAGS")
    for installation in installations {
        let active = (installation["tokens"]?.arrayValue ?? []).filter { $0["state"]?.stringValue == "active" }
        table.add(
            installation.shown("id"), installation.shown("user"),
            active.isEmpty ? "none" : active.map { "\($0.shown("purpose"))/\($0.shown("environment"))" }.joined(separator: ","),
            installation.shown("registered_at"), installation.shown("app_version"), installation.shown("os_version"),
            tagWords(installation))
    }
    return table
}

/// The facts about one installation, a line each.
func installationFacts(_ record: JSONValue) -> String {
    let user = record["user"]?.stringValue ?? "no user"
    let names = [
        "registered_at", "created_at", "throttled_until", "locale", "time_zone", "app_version", "os_version", "device_model", "permission",
    ]
    let facts = names.compactMap { name in record[name]?.stringValue.map { "\(name) \($0)" } }
    let tags = tagWords(record)
    let epoch = record["owner_epoch"]?.integerValue ?? 0
    let head = "\(record.shown("id")), signed in: \(user), owner epoch \(epoch), fence \(record.shown("fence"))"
    return ([head] + facts + (tags.isEmpty ? [] : ["tags \(tags)"])).joined(separator: "\n")
}

/// The backend's tags and the app's, as a tag expression names them.
private func tagWords(_ record: JSONValue) -> String {
    func texts(_ name: String) -> [String] { (record[name]?.arrayValue ?? []).compactMap(\.stringValue) }
    return (texts("tags") + texts("app_tags").map { "app:" + $0 }).joined(separator: ",")
}

func tokenTable(_ record: JSONValue, isFull: Bool) -> Table {
    var table = Table("TOKEN", "PURPOSE", "ENVIRONMENT", "STATE", "REGISTERED", "RETIRED", "WHY")
    for token in record["tokens"]?.arrayValue ?? [] {
        table.add(
            token.shown(isFull ? "token" : "hint"), token.shown("purpose"), token.shown("environment"), token.shown("state"),
            token.shown("registered_at"), token.shown("retired_at"), token.shown("retired_reason"))
    }
    return table
}

func historyTable(_ entries: [JSONValue]) -> Table {
    var table = Table("WHEN", "EVENT", "USER", "TOKEN", "OTHER INSTALLATION", "REASON", "APNS SINCE")
    for entry in entries {
        let token = entry["token"].map { "\($0.shown("hint")) \($0.shown("purpose"))/\($0.shown("environment"))" }
        let reason = [entry["status"]?.integerValue.map(String.init), entry["reason"]?.stringValue].compactMap { $0 }
        table.add(
            entry.shown("at"), entry.shown("event"), entry.shown("user"), token ?? "-", entry.shown("other_installation"),
            reason.isEmpty ? "-" : reason.joined(separator: " "), entry.shown("apns_timestamp"))
    }
    return table
}

func formerHolderTable(_ holders: [JSONValue]) -> Table {
    var table = Table("INSTALLATION", "UNTIL", "WHY", "MOVED TO", "PURPOSE", "ENVIRONMENT")
    for holder in holders {
        table.add(
            holder.shown("id"), holder.shown("until"), holder.shown("reason"), holder.shown("moved_to"), holder.shown("purpose"),
            holder.shown("environment"))
    }
    return table
}

extension JSONValue {
    /// A text field for a table's cell.
    fileprivate func shown(_ name: String) -> String { self[name]?.stringValue ?? "-" }

    /// The value as one line of JSON.
    var jsonText: String {
        var writer = JSONWriter()
        writer.value(self)
        return String(decoding: writer.bytes, as: UTF8.self)
    }
}
