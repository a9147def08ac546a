package import PushModel

/// An installation's history, read page by page.
package struct HistoryList: Hashable, Sendable {
    package enum Order: String, CaseIterable, Sendable {
        case newestFirst = "desc"
        case oldestFirst = "asc"
    }

    package var installation: PushID
    package var order: Order

    package init(installation: PushID, order: Order = .newestFirst) {
        self.installation = installation
        self.order = order
    }

    /// - Parameter entry: The last one that was shown.
    package func cursor(after entry: Int64, app: App) -> String {
        let bits = UInt64(bitPattern: entry)
        return PageCursor.encode((0..<8).map { UInt8(truncatingIfNeeded: bits >> UInt64(56 - 8 * $0)) }, list: identity(app))
    }

    package func position(_ cursor: String, app: App) throws(PageCursor.Fault) -> Int64 {
        let place = try PageCursor.decode(cursor, list: identity(app))
        guard place.count == 8 else { throw .unreadable }
        return Int64(bitPattern: place.reduce(0) { $0 << 8 | UInt64($1) })
    }

    private func identity(_ app: App) -> [String?] { ["history", "\(app.id)", installation.description, order.rawValue] }
}
