// swift-tools-version: 6.2
import PackageDescription

let settings: [SwiftSetting] = [
    .enableUpcomingFeature("InternalImportsByDefault"), .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
]

let package = Package(
    name: "push-api",
    // StrictJSON reads spans of arrays, which macOS has from 26 on.
    platforms: [.macOS(.v26)],
    products: [.library(name: "PushAPI", targets: ["PushAPI"])],
    // From the versions that the platform is built and tested with; the root's Package.swift pins these.
    dependencies: [
        .package(url: "https://github.com/apple/swift-nio.git", from: "2.101.2"),
        .package(url: "https://github.com/swift-server/async-http-client.git", from: "1.37.0"),
    ],
    targets: [
        .target(name: "StrictJSON", swiftSettings: settings),
        .target(
            name: "PushAPI",
            dependencies: [
                "StrictJSON",
                .product(name: "AsyncHTTPClient", package: "async-http-client"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
            ],
            swiftSettings: settings
        ),
    ]
)
