import Foundation

extension RegistrationMachine {
    /// - Throws: What the store throws. The caller tries again later: an unreadable store is not a new device.
    init(_ configuration: PushConfiguration) throws {
        let store = configuration.store
        let known = try store.read(.installation).flatMap { UUID(uuidString: String(decoding: $0, as: UTF8.self)) }
        let installation = known ?? UUID()
        // After a reinstall the keychain still has the id, and the server may still have a user for it.
        var record = RegistrationRecord(installation: installation, server: known == nil ? .new : .lost)
        if let data = try store.read(.record), let stored = try? JSONDecoder().decode(RegistrationRecord.self, from: data),
            stored.installation == known
        {
            record = stored
        }
        let credential =
            known == nil ? nil : try store.read(.credential).flatMap { try? JSONDecoder().decode(HeldCredential.self, from: $0) }
        if known == nil { try store.write(Data(installation.uuidString.utf8), for: .installation) }

        var rules = Rules(purposes: configuration.purposes, patience: configuration.patience, receiptDelay: configuration.receiptDelay)
        if case .tokenService = configuration.server { rules.needsCredential = true }
        self.init(record: record, credential: credential, rules: rules)
    }

    /// What these ask to store.
    static func items(of actions: [Action]) -> Set<PushStoreItem> {
        Set(
            actions.compactMap { action in
                switch action {
                case .save: .record
                case .saveCredential: .credential
                case .notice, .wake, .send, .fetchCredential: nil
                }
            })
    }

    /// Writes the present state.
    func save(_ items: Set<PushStoreItem>, to store: any PushStore) throws {
        if items.contains(.record) { try store.write(JSONEncoder().encode(record), for: .record) }
        if items.contains(.credential) { try store.write(credential.map { try JSONEncoder().encode($0) }, for: .credential) }
    }

    /// A request is in flight, or the app is asked for a credential.
    var isBusy: Bool {
        switch phase {
        case .sending, .fetching: true
        case .resting, .waiting: false
        }
    }

    var isUploaded: Bool {
        guard phase == .resting else { return false }
        switch record.desired.presence {
        case .signedIn: return stated != nil && !isRefused && nextRegistration() == nil && nextActivity() == nil
        case .signedOut: return !record.server.mayHaveOwner(otherThan: nil) && (isRefused || nextRegistration() == nil)
        case .deregistered: return record.server.existence == .absent && stated != nil
        }
    }
}
