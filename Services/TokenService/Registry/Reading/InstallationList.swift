package import PushModel
package import TokenServiceApps
package import TokenServiceKit

/// A list that is read page by page: of an app's installations, or of one user's.
package struct InstallationList: Hashable, Sendable {
    /// Nil for the whole app.
    package var user: String?
    package var filter: InstallationFilter

    package init(user: String? = nil, filter: InstallationFilter = InstallationFilter()) {
        self.user = user
        self.filter = filter
    }

    /// The beginning of a page: behind an installation.
    package struct Position: Hashable, Sendable {
        package var after: PushID
        /// The tag is too common for its index: the list is scanned in order of id.
        package var isScan: Bool

        package init(after: PushID, isScan: Bool) {
            self.after = after
            self.isScan = isScan
        }
    }

    package struct Page: Sendable {
        /// In ascending order of id. May be fewer than the limit, even none, while there is a next page.
        package var records: [InstallationRecord]
        /// Nil on the last page.
        package var next: Position?
    }
}

extension InstallationList {
    package func cursor(_ position: Position, app: App) -> String {
        PageCursor.encode(position.after.bytes + [position.isScan ? 1 : 0], list: identity(app))
    }

    package func position(_ cursor: String, app: App) throws(PageCursor.Fault) -> Position {
        let place = try PageCursor.decode(cursor, list: identity(app))
        guard place.count == 17, place[16] <= 1, let id = PushID(bytes: place.prefix(16)) else { throw .unreadable }
        return Position(after: id, isScan: place[16] == 1)
    }

    private func identity(_ app: App) -> [String?] {
        [
            "installations", "\(app.id)", user, filter.state?.rawValue, filter.permission?.rawValue, filter.tag,
            filter.seenAfter.map { "\($0)" }, filter.seenBefore.map { "\($0)" },
        ]
    }
}
