import Foundation
import PushClient
import Security

/// What app and service extension share. Both targets have these groups under "Signing & Capabilities".
enum Shop {
    static let appGroup = "group.com.example.shop"
    /// With the team's prefix, as the entitlement has it.
    static let keychainGroup = "ABCDE12345.com.example.shop"

    /// The extension leaves receipts here, and the app collects them. Nil in a build without the app group.
    static var receipts: ReceiptFolder? {
        FileManager.default.containerURL(forSecurityApplicationGroupIdentifier: appGroup).map {
            ReceiptFolder(folder: $0.appending(path: "receipts"))
        }
    }

    /// Puts the key of this name where the extension finds it, in place of an earlier one. Nil removes it.
    ///
    /// The extension may run while the device is locked, so the key must be readable then.
    static func store(_ key: Data?, named name: String) {
        var item: [String: Any] = [
            kSecClass as String: kSecClassGenericPassword, kSecAttrService as String: "SealedTexts", kSecAttrAccount as String: name,
            kSecAttrAccessGroup as String: keychainGroup, kSecUseDataProtectionKeychain as String: true,
        ]
        SecItemDelete(item as CFDictionary)
        guard let key else { return }
        item[kSecValueData as String] = key
        item[kSecAttrAccessible as String] = kSecAttrAccessibleAfterFirstUnlockThisDeviceOnly
        SecItemAdd(item as CFDictionary, nil)
    }

    /// The key of this name that opens sealed texts.
    static func key(named name: String) -> Data? {
        let wanted: [String: Any] = [
            kSecClass as String: kSecClassGenericPassword, kSecAttrService as String: "SealedTexts", kSecAttrAccount as String: name,
            kSecAttrAccessGroup as String: keychainGroup, kSecUseDataProtectionKeychain as String: true, kSecReturnData as String: true,
        ]
        var found: CFTypeRef?
        return SecItemCopyMatching(wanted as CFDictionary, &found) == errSecSuccess ? found as? Data : nil
    }
}
