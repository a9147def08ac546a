import ActivityKit
import CryptoKit
import Foundation
import PushClient
import SwiftUI

// What the examples of PushClient's README and guide leave to the app: its screens, its session, its keys.

struct Screens: View {
    var body: some View { Never.stub }

    static func showOrder(_ tap: PushTap) {}
    static func showSignIn() {}
}

enum Session {
    static var user: String? { nil }
    static let backend = Backend()

    struct Backend {
        func post(_ path: String, _ body: [String: String?]) async throws -> Data? { nil }
    }
}

struct Ride: ActivityAttributes {
    struct ContentState: Codable, Hashable { var eta: Int }
}

enum Keys {
    static func named(_ name: String) throws -> SymmetricKey? { nil }
}

extension Never {
    static var stub: Never { fatalError() }
}

extension URL {
    /// Apple's Foundation has it since iOS 16 and macOS 13; the one for Linux lacks it.
    static var applicationSupportDirectory: URL { fatalError() }
}
