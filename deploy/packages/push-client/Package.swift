// swift-tools-version: 6.1
import PackageDescription

// No package beside it: sealed contents use CryptoKit, and are left out where there is none.
let package = Package(
    name: "push-client",
    platforms: [.iOS(.v16), .macCatalyst(.v16), .macOS(.v13), .tvOS(.v16), .visionOS(.v1), .watchOS(.v9)],
    products: [.library(name: "PushClient", targets: ["PushClient"])],
    targets: [
        .target(
            name: "PushClient",
            resources: [.copy("PrivacyInfo.xcprivacy")],
            swiftSettings: [.enableUpcomingFeature("InternalImportsByDefault")]
        )
    ]
)
