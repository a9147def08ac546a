package import PushModel

/// One item of a ``RegistryBatch``.
package struct RegistryChange: Sendable {
    package enum Content: Sendable {
        case registration(Registration)
        case patch(InstallationPatch)
    }

    package var app: App
    package var content: Content

    package init(app: App, _ content: Content) {
        self.app = app
        self.content = content
    }

    package var installation: InstallationKey {
        switch content {
        case .registration(let registration): InstallationKey(app: app.id, id: registration.installation)
        case .patch(let patch): InstallationKey(app: app.id, id: patch.installation)
        }
    }

    /// Every token that is named, for whatever reason.
    package var namedTokens: [DeviceToken] {
        switch content {
        case .registration(let registration): registration.tokens.map(\.token) + [registration.replaces].compactMap(\.self)
        case .patch(let patch): (patch.tokens ?? []).map(\.token) + [patch.replaces].compactMap(\.self)
        }
    }

    /// How many names it locks, at most.
    package var nameCount: Int { 1 + namedTokens.count + (namedUser == nil ? 0 : 1) }

    /// Whose other installations the single policy signs out.
    package var onlyInstallationOf: String? { app.devicePolicy == .single ? namedUser : nil }

    /// Who is to be signed in. The name is locked, so that "log out everywhere" sees all of this change or nothing.
    package var namedUser: String? {
        switch content {
        case .registration(let registration): return registration.user
        case .patch(let patch):
            guard case .set(let user) = patch.user else { return nil }
            return user
        }
    }

    /// What a change did.
    package struct Result: Sendable {
        package var record: InstallationRecord
        package var isNew: Bool
        /// Whose epochs it ended.
        package var fenced: Set<InstallationKey>
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
