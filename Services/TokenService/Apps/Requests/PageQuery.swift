import Hummingbird
package import Postgres
package import PushModel
import TokenServiceKit

/// A page of a list or of an export is in memory as a whole. So it ends behind the row that brings its JSON to this many bytes, if not
/// before. PostgreSQL counts them (`installation_sizes`, `notification_summaries`): no more rows come here. The rows of the other lists
/// have at most 2 KiB, and a page of them at most ``PageQuery/maximum`` rows.
package enum PageBytes {
    package static let maximum = 1 << 20
}

extension PostgresRows {
    /// Whether the page ends before the last row that was found for it: each row has their number, `found`.
    package var endBeforeLastFound: Bool {
        get throws {
            guard let first else { return false }
            let found: Int = try first["found"]
            return found > count
        }
    }
}

/// The query of every list: `limit` and `cursor`.
package enum PageQuery {
    package static let maximum = 1000
    static let standard = 100

    package static func limit(_ call: APICall) throws -> Int {
        guard let text = try call.query("limit") else { return standard }
        guard let limit = Int(text), (1...maximum).contains(limit) else {
            throw APIError.invalid("limit", .outOfRange, "must be from 1 to \(maximum)")
        }
        return limit
    }

    /// - Parameter read: Throws ``PageCursor/Fault``, which becomes a 400.
    package static func position<Position>(_ call: APICall, _ read: (String) throws -> Position) throws -> Position? {
        guard let text = try call.query("cursor") else { return nil }
        do {
            return try read(text)
        } catch PageCursor.Fault.unreadable {
            throw APIError.invalid("cursor", .invalidCursor, "must be the next_cursor of an earlier page, unchanged")
        } catch PageCursor.Fault.ofAnotherList {
            throw APIError.invalid("cursor", .cursorOfAnotherList, "this cursor was given by another list, or with other filters")
        }
    }
}

extension APICall {
    /// Refuses an unknown or repeated parameter: a misspelt filter must not show everything, and a condition that an operation does not
    /// know must not be passed over.
    package func allowQuery(_ names: Set<String>) throws {
        var seen: Set<String> = []
        for parameter in FormQuery(request.uri.query).parameters {
            guard let name = parameter.name, names.contains(name) else {
                let known = names.isEmpty ? "has no parameters here" : "knows only \(names.sorted().joined(separator: ", "))"
                throw APIError.invalid("the query", .unknownParameter, known)
            }
            guard seen.insert(name).inserted else {
                throw APIError.invalid("the query", .repeatedParameter, "\(name) may be given once")
            }
        }
    }

    /// Text in the query that stands for a name.
    package func words(_ name: String, maximumBytes: Int) throws -> String? {
        guard let text = try query(name) else { return nil }
        guard (1...maximumBytes).contains(text.utf8.count) else {
            throw APIError.invalid(name, .outOfRange, "must be 1 to \(maximumBytes) bytes of UTF-8")
        }
        return text
    }

    package func slug(_ name: String) throws -> AppSlug? {
        guard let text = try query(name) else { return nil }
        guard let slug = AppSlug(text) else { throw APIError.invalid(name, .unsupportedValue, "must be an app's slug") }
        return slug
    }

    /// One of an enumeration's raw values, spelled exactly so.
    package func choice<Choice: RawRepresentable<String> & CaseIterable>(_ name: String, of _: Choice.Type) throws -> Choice? {
        guard let text = try query(name) else { return nil }
        guard let choice = Choice(rawValue: text) else {
            let allowed = Choice.allCases.map(\.rawValue).joined(separator: ", ")
            throw APIError.invalid(name, .unsupportedValue, "must be one of \(allowed)")
        }
        return choice
    }

    /// A moment in RFC 3339, as UNIX milliseconds.
    package func moment(_ name: String) throws -> Int64? {
        guard let text = try query(name) else { return nil }
        guard let moment = RFC3339.milliseconds(text.withPlusOfOffset) else {
            throw APIError.invalid(name, .invalidTime, "must be an RFC 3339 date and time")
        }
        return moment
    }
}

extension Parameter {
    package static let page: [Parameter] = [
        .query(
            "limit", .integer(1...Int64(PageQuery.maximum)).standard(.integer(Int64(PageQuery.standard))), "How many at most."),
        .query("cursor", .string(), "The `next_cursor` of the page before."),
    ]
}

extension String {
    /// A time whose `+01:00` was not written as `%2B01:00` has a blank there, which can mean nothing else.
    fileprivate var withPlusOfOffset: String {
        guard let blank = utf8.index(utf8.endIndex, offsetBy: -6, limitedBy: utf8.startIndex), utf8[blank] == UInt8(ascii: " ") else {
            return self
        }
        return "\(self[..<blank])+\(self[utf8.index(after: blank)...])"
    }
}
