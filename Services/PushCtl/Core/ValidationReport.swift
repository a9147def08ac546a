import PushAPI
import PushModel
import StrictJSON

/// The service's validation of a request, for people and for the iOS simulator.
struct ValidationReport {
    let answer: JSONValue
    /// The bytes from which `answer` was parsed.
    let bytes: [UInt8]

    var text: String {
        let tables = [properties.description, payloads.description, audience]
        let warnings = (answer["warnings"]?.arrayValue ?? []).map { warningLine($0) }
        return (tables + (warnings.isEmpty ? [] : [warnings.joined(separator: "\n")])).joined(separator: "\n\n")
    }

    private var properties: Table {
        var table = Table("PUSH TYPE", "TOPIC", "PRIORITY", "LANE", "DUE", "EXPIRES")
        table.add(
            word("push_type"), word("topic"), answer["priority"]?.integerValue.map(String.init) ?? "?", word("lane"),
            answer["not_before"]?.stringValue ?? answer["local_time"]?.stringValue.map { "\($0) local" } ?? "at once", word("expires_at"))
        return table
    }

    private var payloads: Table {
        var table = Table("LOCALE", "BYTES", "OF", "PAYLOAD")
        for payload in answer["payloads"]?.arrayValue ?? [] {
            let size = [payload["bytes"], payload["maximum_bytes"]].map { $0?.integerValue.map(String.init) ?? "?" }
            let text = payload["payload"].map { String(decoding: bytes[$0.range], as: UTF8.self) } ?? "?"
            table.add(payload["locale"]?.stringValue ?? "default", size[0], size[1], text.replacing("\n", with: " "))
        }
        return table
    }

    private var audience: String {
        guard let audience = answer["audience"] else { return "?" }
        let devices = audience["devices"]?.integerValue ?? 0
        let deliveries = audience["deliveries"]?.integerValue ?? 0
        let bound = audience["is_lower_bound"]?.boolValue == true ? "at least " : ""
        let sum = "devices: \(bound)\(devices), deliveries: \(bound)\(deliveries)" + displays(audience) + timeZones(audience)
        let reasons = audience["reasons"]?.arrayValue ?? []
        guard !reasons.isEmpty else { return sum }
        var table = Table("DEVICES", "EFFECT", "REASON", "MEANING")
        for reason in reasons {
            table.add(
                reason["devices"]?.integerValue.map(String.init) ?? "?", reason["effect"]?.stringValue ?? "?",
                reason["reason"]?.stringValue ?? "?", reason["detail"]?.stringValue ?? "?")
        }
        return "\(sum)\n\(table)"
    }

    /// A line of an alert's audience: how many devices show it.
    private func displays(_ audience: JSONValue) -> String {
        guard let displays = audience["displays"]?.objectValue else { return "" }
        let counts = displays.map { "\($0.key.replacing("_", with: " ")) \($0.value.integerValue.map(String.init) ?? "?")" }
        return "\nshown: \(counts.joined(separator: ", "))"
    }

    private func timeZones(_ audience: JSONValue) -> String {
        guard let devices = audience["unknown_time_zones"]?.integerValue, devices > 0 else { return "" }
        return "\nwithout a known time zone, so by UTC: \(devices)"
    }

    private func word(_ name: String) -> String { answer[name]?.stringValue ?? "?" }

    // MARK: The simulator

    private static let bundleKey = "Simulator Target Bundle"

    /// The payload that a device of this locale gets, with the app to which the simulator must hand it.
    /// - Throws: ``CommandFailure`` for a push type that does not go to the app.
    func simulatorFile(locale: String?) throws -> [UInt8] {
        guard let bundle = answer["bundle_id"]?.stringValue, answer["topic"]?.stringValue == bundle else {
            throw CommandFailure("the simulator takes what goes to the app itself, and not push type \(word("push_type"))")
        }
        guard let payload = payload(for: locale)?["payload"], let members = payload.objectValue else {
            throw CommandFailure("the answer shows no payload")
        }
        var frame = JSONWriter()
        frame.object { $0.field(Self.bundleKey, bundle) }
        var file = Array(frame.bytes.dropLast())
        // Each member's bytes begin after the value before it, and so with the comma, except the first one's.
        var start = payload.range.lowerBound + 1
        for (index, member) in members.enumerated() {
            if member.key != Self.bundleKey {
                if index == 0 { file.append(UInt8(ascii: ",")) }
                file += bytes[start..<member.value.range.upperBound]
            }
            start = member.value.range.upperBound
        }
        return file + bytes[start..<payload.range.upperBound]
    }

    private func payload(for locale: String?) -> JSONValue? {
        let payloads = answer["payloads"]?.arrayValue ?? []
        for range in locale.flatMap({ LocaleTag($0) })?.lookup ?? [] {
            if let found = payloads.first(where: { $0["locale"]?.stringValue == range }) { return found }
        }
        return payloads.first { $0["locale"]?.isNull == true }
    }
}

/// Rows of text under a header, in columns as wide as they need to be.
struct Table: CustomStringConvertible {
    private var rows: [[String]]

    init(_ header: [String]) { rows = [header] }
    init(_ header: String...) { self.init(header) }

    mutating func add(_ row: [String]) { rows.append(row) }
    mutating func add(_ row: String...) { add(row) }

    var description: String {
        let widths = rows[0].indices.map { column in rows.map { $0[column].count }.max() ?? 0 }
        return rows.map { row in
            let cells = zip(row, widths).map { cell, width in cell + String(repeating: " ", count: width - cell.count) }
            return String(cells.joined(separator: "  ").reversed().drop { $0 == " " }.reversed())
        }.joined(separator: "\n")
    }
}
