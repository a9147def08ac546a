public import Foundation

extension PushEnvironment {
    /// The profile is there, but does not say in which environment the app's tokens work.
    public struct NoEntitlement: Error, CustomStringConvertible {
        /// What to log, in English, with what to do in Xcode.
        public var description: String {
            """
            the provisioning profile names no aps-environment of 'development' or 'production'; add the capability Push Notifications in \
            Xcode
            """
        }
    }

    /// Reads the entitlement `aps-environment` of the build (Apple, "APS Environment Entitlement").
    ///
    /// - Parameter profile: The bytes of the provisioning profile in the app's bundle. Nil if the bundle has none: an app from the App
    ///   Store has none, and its tokens work in production.
    /// - Throws: ``NoEntitlement``.
    public init(provisioningProfile profile: Data?) throws(NoEntitlement) {
        guard let profile else {
            self = .production
            return
        }
        // The profile is a signed message around a property list in XML.
        guard let start = profile.range(of: Data("<plist".utf8)),
            let end = profile.range(of: Data("</plist>".utf8), in: start.lowerBound..<profile.endIndex),
            let list = try? PropertyListDecoder().decode(Profile.self, from: Data(profile[start.lowerBound..<end.upperBound]))
        else { throw NoEntitlement() }
        switch list.entitlements.environment ?? list.entitlements.environmentOnMac {
        case "development": self = .sandbox
        case "production": self = .production
        default: throw NoEntitlement()
        }
    }

    /// The environment of the running app, from the profile in its bundle. A simulator's tokens work in the sandbox.
    ///
    /// - Returns: The environment; nil if the profile cannot be read or names none, as in a build without the capability Push
    ///   Notifications.
    public static func ofThisBuild(_ bundle: Bundle = .main) -> PushEnvironment? {
        #if targetEnvironment(simulator)
            return .sandbox
        #else
            // iOS keeps the profile beside the program, macOS in Contents.
            let places = ["embedded.mobileprovision", "Contents/embedded.provisionprofile"]
            let profile = places.map { bundle.bundleURL.appendingPathComponent($0) }.first {
                FileManager.default.fileExists(atPath: $0.path)
            }
            return try? PushEnvironment(provisioningProfile: profile.map { try Data(contentsOf: $0) })
        #endif
    }

    private struct Profile: Decodable {
        struct Entitlements: Decodable {
            var environment: String?
            var environmentOnMac: String?

            private enum CodingKeys: String, CodingKey {
                case environment = "aps-environment"
                case environmentOnMac = "com.apple.developer.aps-environment"
            }
        }

        var entitlements: Entitlements

        private enum CodingKeys: String, CodingKey {
            case entitlements = "Entitlements"
        }
    }
}
