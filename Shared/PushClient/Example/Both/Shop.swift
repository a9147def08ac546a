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

    /// The key of this name that opens sealed texts. The app has put it there after the sign-in.
    static func key(named name: String) -> Data? {
        let wanted: [String: Any] = [
            kSecClass as String: kSecClassGenericPassword, kSecAttrService as String: "SealedTexts", kSecAttrAccount as String: name,
            kSecAttrAccessGroup as String: keychainGroup, kSecUseDataProtectionKeychain as String: true, kSecReturnData as String: true,
        ]
        var found: CFTypeRef?
        return SecItemCopyMatching(wanted as CFDictionary, &found) == errSecSuccess ? found as? Data : nil
    }
}
