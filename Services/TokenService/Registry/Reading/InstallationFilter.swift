/// Which installations a list shows: those that pass every filter that is set.
package struct InstallationFilter: Hashable, Sendable {
    package enum State: String, CaseIterable, Sendable {
        case signedIn = "signed_in"
        case signedOut = "signed_out"
        /// APNs asked, and the time has not passed yet.
        case throttled
        case stale
        /// Without an active token of any purpose.
        case unreachable
    }

    package var state: State?
    package var permission: ReportedPermission?
    /// As a tag expression names it: `beta` is a tag of the backend, `app:beta` one of the app.
    package var tag: String?
    /// Last registered at that moment or later; UNIX milliseconds.
    package var seenAfter: Int64?
    /// Last registered before that moment, so that windows with a common border share no installation; UNIX milliseconds.
    package var seenBefore: Int64?

    package init(
        state: State? = nil, permission: ReportedPermission? = nil, tag: String? = nil, seenAfter: Int64? = nil, seenBefore: Int64? = nil
    ) {
        self.state = state
        self.permission = permission
        self.tag = tag
        self.seenAfter = seenAfter
        self.seenBefore = seenBefore
    }

    package var isEmpty: Bool { self == InstallationFilter() }
}
