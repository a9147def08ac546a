package import PushModel

/// One item of a ``RegistryBatch``.
package struct RegistryChange: Sendable {
    package enum Content: Sendable {
        case registration(Registration)
        case patch(InstallationPatch)
    }

    package let app: App
    package let content: Content
    package let installation: InstallationKey
    /// Every token that is named, for whatever reason.
    package let namedTokens: [DeviceToken]
    /// The names that it locks (``RegistryLock``). Worked out where the request is, not while the database waits for the batch.
    let lockKeys: [Int64]

    package init(app: App, _ content: Content) {
        self.app = app
        self.content = content
        let (id, tokens, replaces) =
            switch content {
            case .registration(let registration): (registration.installation, registration.tokens, registration.replaces)
            case .patch(let patch): (patch.installation, patch.tokens ?? [], patch.replaces)
            }
        installation = InstallationKey(app: app.id, id: id)
        namedTokens = tokens.map(\.token) + (replaces.map { [$0] } ?? [])
        lockKeys = RegistryLock.keys(installation: installation, tokens: namedTokens, user: content.namedUser)
    }

    /// How many names it locks, at most.
    package var nameCount: Int { lockKeys.count }

    /// Whose other installations the single policy signs out.
    package var onlyInstallationOf: String? { app.devicePolicy == .single ? namedUser : nil }

    /// Who is to be signed in. The name is locked, so that "log out everywhere" sees all of this change or nothing.
    package var namedUser: String? { content.namedUser }

    /// What a change did.
    package struct Result: Sendable {
        package var record: InstallationRecord
        package var isNew: Bool
        /// Whose epochs it ended.
        package var fenced: Set<InstallationKey>
    }
}

extension RegistryChange.Content {
    fileprivate var namedUser: String? {
        switch self {
        case .registration(let registration): return registration.user
        case .patch(let patch):
            guard case .set(let user) = patch.user else { return nil }
            return user
        }
    }
}

/// Names an installation among all apps'.
package struct InstallationKey: Hashable, Sendable, Comparable {
    package let app: App.ID
    package let id: PushID

    package init(app: App.ID, id: PushID) {
        self.app = app
        self.id = id
    }

    package static func < (left: InstallationKey, right: InstallationKey) -> Bool {
        left.app == right.app ? left.id < right.id : left.app < right.app
    }
}
