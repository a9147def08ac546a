package import PushModel
package import TokenServiceApps
package import TokenServiceKit

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
        PageCursor.encode(entry, list: identity(app))
    }

    package func position(_ cursor: String, app: App) throws(PageCursor.Fault) -> Int64 {
        try PageCursor.decodeNumber(cursor, list: identity(app))
    }

    private func identity(_ app: App) -> [String?] { ["history", "\(app.id)", installation.description, order.rawValue] }
}
