#if canImport(Security)
    public import Foundation
    import Security

    /// Keeps each item in the keychain, for this device only.
    ///
    /// An item of `kSecAttrAccessibleAfterFirstUnlockThisDeviceOnly` outlives a reinstall, and does not move to a new device with a backup.
    public struct KeychainPushStore: PushStore {
        /// What the keychain answered instead of an item.
        public struct Failure: Error, CustomStringConvertible {
            /// Security's `OSStatus`.
            public let status: Int32
            /// What to log, in English, with the status.
            public var description: String { "the keychain answered \(status); before the first unlock of the device it cannot be read" }
        }

        private let service: String
        private let accessGroup: String?

        /// - Parameters:
        ///   - service: The name of the items, by itself the library's.
        ///   - accessGroup: A keychain access group that the service extension shares, or nil for the app's own.
        public init(service: String = "PushClient", accessGroup: String? = nil) {
            self.service = service
            self.accessGroup = accessGroup
        }

        /// See ``PushStore/read(_:)``. Throws ``Failure`` on any status but success and `errSecItemNotFound`.
        public func read(_ item: PushStoreItem) throws -> Data? {
            var wanted = query(item)
            wanted[kSecReturnData as String] = true
            wanted[kSecMatchLimit as String] = kSecMatchLimitOne
            var found: CFTypeRef?
            let status = SecItemCopyMatching(wanted as CFDictionary, &found)
            switch status {
            case errSecSuccess: return found as? Data
            case errSecItemNotFound: return nil
            default: throw Failure(status: status)
            }
        }

        /// See ``PushStore/write(_:for:)``. Throws ``Failure``.
        public func write(_ data: Data?, for item: PushStoreItem) throws {
            guard let data else { return try check(SecItemDelete(query(item) as CFDictionary), absentIsFine: true) }
            let content: [String: Any] = [kSecValueData as String: data]
            let status = SecItemUpdate(query(item) as CFDictionary, content as CFDictionary)
            guard status == errSecItemNotFound else { return try check(status, absentIsFine: false) }
            var added = query(item).merging(content) { $1 }
            added[kSecAttrAccessible as String] = kSecAttrAccessibleAfterFirstUnlockThisDeviceOnly
            try check(SecItemAdd(added as CFDictionary, nil), absentIsFine: false)
        }

        private func check(_ status: Int32, absentIsFine: Bool) throws {
            if status == errSecSuccess || (absentIsFine && status == errSecItemNotFound) { return }
            throw Failure(status: status)
        }

        private func query(_ item: PushStoreItem) -> [String: Any] {
            var query: [String: Any] = [
                kSecClass as String: kSecClassGenericPassword, kSecAttrService as String: service,
                kSecAttrAccount as String: item.rawValue, kSecUseDataProtectionKeychain as String: true,
            ]
            if let accessGroup { query[kSecAttrAccessGroup as String] = accessGroup }
            return query
        }
    }
#endif
