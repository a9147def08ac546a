package import TokenServiceApps
package import TokenServiceKit

/// An app's tokens in quarantine, read page by page in order of their numbers.
package enum QuarantineList {
    /// - Parameter token: The last one that was shown.
    package static func cursor(after token: Int64, app: App) -> String { PageCursor.encode(token, list: identity(app)) }

    package static func position(_ cursor: String, app: App) throws(PageCursor.Fault) -> Int64 {
        try PageCursor.decodeNumber(cursor, list: identity(app))
    }

    private static func identity(_ app: App) -> [String?] { ["quarantine", "\(app.id)"] }
}
