package import PushModel

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
