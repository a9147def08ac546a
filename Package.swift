// swift-tools-version: 6.3
// swift-format-ignore-file
import PackageDescription

// Every target is one entry: its kind says which fences it stands behind, its list what it may see.
// Services never depend on each other; only a wrapper sees a C module; PushModel sees nothing but our JSON.

/// PushClient has these alone. Its own package is compiled by Swift 6.1 too, which knows no NonisolatedNonsendingByDefault, and no word
/// `unsafe`, which strict memory safety asks for.
let known: [SwiftSetting] = [
    .swiftLanguageMode(.v6), .treatAllWarnings(as: .error),
    .enableUpcomingFeature("ExistentialAny"), .enableUpcomingFeature("InternalImportsByDefault"),
        .enableUpcomingFeature("MemberImportVisibility"),
]
let base = known + [.enableUpcomingFeature("NonisolatedNonsendingByDefault")]
/// Everywhere except the C wrappers, SystemIO and PushClient: an unsafe pointer does not compile.
let fenced = base + [.strictMemorySafety()]

func product(_ name: String, _ package: String) -> Target.Dependency { .product(name: name, package: package) }

let arguments = product("ArgumentParser", "swift-argument-parser")
let configuration = product("Configuration", "swift-configuration")
let coreMetrics = product("CoreMetrics", "swift-metrics")
// Apple's platforms have CryptoKit.
let crypto = Target.Dependency.product(name: "Crypto", package: "swift-crypto", condition: .when(platforms: [.linux]))
let httpClient = product("AsyncHTTPClient", "async-http-client")
let hummingbird = product("Hummingbird", "hummingbird")
let hummingbirdCore = product("HummingbirdCore", "hummingbird")
let instrumentation = product("Instrumentation", "swift-distributed-tracing")
let lifecycle = product("ServiceLifecycle", "swift-service-lifecycle")
let lifecycleTesting = product("ServiceLifecycleTestKit", "swift-service-lifecycle")
let logging = product("Logging", "swift-log")
let metrics = product("Metrics", "swift-metrics")
let nioEmbedded = product("NIOEmbedded", "swift-nio")
let nio = product("NIOCore", "swift-nio")
let httpTypes = product("HTTPTypes", "swift-http-types")
let nioHTTP1 = product("NIOHTTP1", "swift-nio")
let nioHTTPTypesHTTP1 = product("NIOHTTPTypesHTTP1", "swift-nio-extras")
let nioHTTPTypes = product("NIOHTTPTypes", "swift-nio-extras")
let nioSSL = product("NIOSSL", "swift-nio-ssl")
let nioPosix = product("NIOPosix", "swift-nio")
let protobuf = product("SwiftProtobuf", "swift-protobuf")
let signals = product("UnixSignals", "swift-service-lifecycle")
let tracing = product("Tracing", "swift-distributed-tracing")

func library(_ name: String, pkgConfig: String, apt: String) -> Target {
    .systemLibrary(name: name, path: "Shared/\(name)", pkgConfig: pkgConfig, providers: [.apt([apt])])
}
func wrapper(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
    .target(name: name, dependencies: dependencies, path: "Shared/\(name)", swiftSettings: base)
}
func shared(_ name: String, _ dependencies: [Target.Dependency] = [], exclude: [String] = []) -> Target {
    .target(name: name, dependencies: dependencies, path: "Shared/\(name)", exclude: exclude, swiftSettings: fenced)
}
func service(_ name: String, _ dependencies: [Target.Dependency], exclude: [String] = [], resources: [Resource] = []) -> Target {
    .target(name: name, dependencies: dependencies, path: "Services/\(name)/Core", exclude: exclude, resources: resources,
        swiftSettings: fenced)
}
/// A floor of the token service.
func floor(_ name: String, _ dependencies: [Target.Dependency], resources: [Resource] = []) -> Target {
    .target(name: "TokenService\(name)", dependencies: dependencies, path: "Services/TokenService/\(name)", resources: resources,
        swiftSettings: fenced)
}
/// A floor and all below it.
func above(_ floor: String) -> [Target.Dependency] {
    let floors = ["Kit", "Apps", "Registry", "Sending", "Events", "Outcomes", "Upkeep", "API"]
    return floors.prefix { $0 != floor }.map { .init(stringLiteral: "TokenService\($0)") } + [.init(stringLiteral: "TokenService\(floor)")]
}
func program(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
    .executableTarget(name: "\(name)Main", dependencies: dependencies, path: "Services/\(name)/Main", swiftSettings: fenced)
}
func support(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
    .target(name: name, dependencies: dependencies, path: "Tests/Support/\(name)", swiftSettings: fenced)
}
func tests(_ name: String, _ dependencies: [Target.Dependency], exclude: [String] = []) -> Target {
    .testTarget(name: name, dependencies: dependencies, path: "Tests/\(name)", exclude: exclude, swiftSettings: base)
}
func benchmark(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
    .executableTarget(name: name, dependencies: dependencies, path: "Tests/Benchmarks/\(name)", swiftSettings: fenced)
}
func chaos(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
    .target(name: name, dependencies: dependencies, path: "Tests/Chaos/\(name)", swiftSettings: fenced)
}
func chaosProgram(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
    .executableTarget(name: name, dependencies: dependencies, path: "Tests/Chaos/\(name)", swiftSettings: fenced)
}

let package = Package(
    name: "push",
    // Those of PushClient, for a person who opens this package on a Mac. Apps and backends take the packages of deploy/packages.
    platforms: [.iOS(.v16), .macCatalyst(.v16), .macOS(.v13), .tvOS(.v16), .visionOS(.v1), .watchOS(.v9)],
    products: [
        .executable(name: "token-service", targets: ["TokenServiceMain"]),
        .executable(name: "dispatcher", targets: ["DispatcherMain"]),
        .executable(name: "apns-simulator", targets: ["APNsSimulatorMain"]),
        .executable(name: "pushctl", targets: ["PushCtlMain"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", exact: "1.8.2"),
        .package(url: "https://github.com/apple/swift-configuration", exact: "1.4.0"),
        .package(url: "https://github.com/apple/swift-crypto.git", exact: "4.5.2"),
        .package(url: "https://github.com/apple/swift-distributed-tracing", exact: "1.7.3"),
        .package(url: "https://github.com/apple/swift-http-types", exact: "1.8.0"),
        .package(url: "https://github.com/apple/swift-log", exact: "1.16.2"),
        .package(url: "https://github.com/apple/swift-metrics", exact: "2.13.0"),
        .package(url: "https://github.com/apple/swift-nio", exact: "2.101.2"),
        .package(url: "https://github.com/apple/swift-nio-extras", exact: "1.35.2"),
        .package(url: "https://github.com/apple/swift-nio-ssl.git", exact: "2.37.6"),
        .package(url: "https://github.com/apple/swift-protobuf", exact: "1.39.0"),
        .package(url: "https://github.com/hummingbird-project/hummingbird", exact: "2.28.1"),
        .package(url: "https://github.com/swift-server/async-http-client", exact: "1.37.0"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", exact: "2.13.0"),
    ],
    targets: [
        library("CPostgres", pkgConfig: "libpq", apt: "libpq-dev"),
        library("CRabbitMQ", pkgConfig: "librabbitmq", apt: "librabbitmq-dev"),
        library("CNGHTTP2", pkgConfig: "libnghttp2", apt: "libnghttp2-dev"),
        library("COpenSSL", pkgConfig: "openssl", apt: "libssl-dev"),
        .systemLibrary(name: "CLinux", path: "Shared/CLinux"),

        wrapper("SystemIO", ["CLinux"]),
        wrapper("Postgres", ["CPostgres", "SystemIO"]),
        wrapper("RabbitMQ", ["CRabbitMQ", "COpenSSL", "SystemIO"]),
        wrapper("HTTP2", ["CNGHTTP2"]),
        wrapper("OpenSSL", ["COpenSSL", "SystemIO"]),

        shared("StrictJSON"),
        shared("PushModel", ["StrictJSON", protobuf], exclude: ["PushModel.docc", "Messages/Generated/push_job.proto"]),
        shared("Observability", ["PushModel", "StrictJSON", "SystemIO", configuration, coreMetrics, httpClient, hummingbird,
            hummingbirdCore, instrumentation, lifecycle, logging, nio, nioHTTP1, nioHTTPTypesHTTP1, nioSSL]),
        shared("Broker", ["PushModel", "RabbitMQ", "StrictJSON", "SystemIO", lifecycle, logging, metrics]),
        shared("PushAPI", ["StrictJSON", httpClient, nio, nioHTTP1], exclude: ["README.md"]),
        .target(name: "PushClient", dependencies: [crypto], path: "Shared/PushClient", exclude: ["Example", "PrivacyInfo.xcprivacy",
            "README.md"], swiftSettings: known),
        shared("APNs", ["HTTP2", "OpenSSL", "PushModel", "StrictJSON", "SystemIO", logging]),

// The floors of the token service, the lowest first: each sees those below it, and SwiftPM refuses a look up.
        floor("Kit", ["Broker", "Observability", "OpenSSL", "Postgres", "PushModel", "RabbitMQ", "StrictJSON", "SystemIO", httpTypes,
            hummingbird, lifecycle, logging, nioHTTP1]),
        floor("Apps", above("Kit") + ["Observability", "OpenSSL", "Postgres", "PushModel", "StrictJSON", configuration, httpTypes,
            hummingbird, lifecycle, logging, metrics, nio]),
        floor("Registry", above("Apps") + ["Observability", "OpenSSL", "Postgres", "PushModel", "StrictJSON", httpTypes, hummingbird,
            metrics]),
        floor("Sending", above("Registry") + ["Broker", "Observability", "OpenSSL", "Postgres", "PushModel", "StrictJSON", "SystemIO",
            configuration, httpTypes, hummingbird, lifecycle, logging, metrics]),
        floor("Events", above("Sending") + ["Broker", "Observability", "OpenSSL", "Postgres", "PushModel", "StrictJSON", "SystemIO",
            configuration, httpClient, httpTypes, hummingbird, lifecycle, logging, metrics, nio, nioHTTP1, nioPosix, nioSSL]),
        floor("Outcomes", above("Events") + ["Broker", "Observability", "Postgres", "PushModel", "RabbitMQ", "StrictJSON", "SystemIO",
            httpTypes, hummingbird, lifecycle, logging, metrics]),
        floor("Upkeep", above("Outcomes") + ["Observability", "Postgres", "PushModel", "StrictJSON", configuration, httpTypes, hummingbird,
            lifecycle, logging, metrics, nio]),
        floor("API", above("Upkeep") + ["Observability", "OpenSSL", "Postgres", "PushModel", "StrictJSON", "SystemIO", httpTypes,
            hummingbird, hummingbirdCore, logging, metrics, nio, nioHTTP1, nioHTTPTypes, nioHTTPTypesHTTP1],
            resources: [.copy("Console/Page")]),
        service("TokenService", above("API") + ["Broker", "Observability", "Postgres", "PushModel", "RabbitMQ", "SystemIO", configuration,
            httpTypes, hummingbird, hummingbirdCore, lifecycle, logging, signals], resources: [.copy("Migrations")]),
        service("Dispatcher", ["APNs", "Broker", "Observability", "OpenSSL", "PushModel", "RabbitMQ", "StrictJSON", "SystemIO",
            configuration, lifecycle, logging, metrics, signals]),
        service("APNsSimulator", ["HTTP2", "Observability", "OpenSSL", "StrictJSON", "SystemIO", configuration, httpClient, httpTypes,
            hummingbird, hummingbirdCore, lifecycle, logging, nio, nioHTTP1], resources: [.embedInCode("Control/Page")]),
        service("PushCtl", ["Observability", "PushAPI", "PushClient", "PushModel", "StrictJSON", "SystemIO", arguments, nio, signals]),
        program("TokenService", above("API") + ["TokenService", "Broker", "Observability", "Postgres", "SystemIO", arguments, logging,
            signals]),
        program("Dispatcher", ["Dispatcher", "Observability", "SystemIO", arguments, logging, signals]),
        program("APNsSimulator", ["APNsSimulator", "Observability", "StrictJSON", arguments, lifecycle, logging, signals]),
        program("PushCtl", ["PushCtl"]),

        support("TestDatabase", ["Postgres", "TestServers"]),
        support("TestBroker", ["Broker", "PushModel", "RabbitMQ", "TestServers"]),
        support("TestDevice", ["PushClient"]),
        support("TestSupport", ["PushModel", "StrictJSON", "SystemIO", nio, nioHTTP1, nioPosix]),
        support("StatementSources", []),
        support("TestIdentity", ["OpenSSL"]),
        support("TestServers", []),
        support("Fuzzing", []),
        tests("SystemIOTests", ["SystemIO"]),
        tests("TestSupportTests", ["BenchmarkSupport", "StrictJSON", "SystemIO", "TestSupport"]),
        tests("PostgresTests", ["Postgres", "TestDatabase", "TestServers", "TestSupport"]),
        tests("RabbitMQTests", ["RabbitMQ", "PushModel", "SystemIO", "TestServers", "TestSupport"]),
        tests("BrokerTests", ["Broker", "Observability", "RabbitMQ", "PushModel", "StrictJSON", "TestBroker", "TestServers", "TestSupport",
            coreMetrics, lifecycle, lifecycleTesting, logging]),
        tests("HTTP2Tests", ["HTTP2", "TestSupport"]),
        tests("OpenSSLTests", ["OpenSSL"]),
        tests("StrictJSONTests", ["StrictJSON", "TestSupport"]),
        tests("PushModelTests", ["PushModel", "StrictJSON", "TestSupport", protobuf]),
        tests("ObservabilityTests", ["Observability", "PushModel", "StrictJSON", "TestSupport", configuration, coreMetrics, lifecycle,
            logging, nio, nioPosix, tracing]),
        tests("APNsTests", ["APNs", "APNsSimulator", "HTTP2", "OpenSSL", "PushModel", "StrictJSON", "SystemIO", "TestIdentity",
            "TestServers", "TestSupport", logging], exclude: ["Peers"]),
        tests("APNsSimulatorTests", ["APNsSimulator", "Fuzzing", "HTTP2", "Observability", "OpenSSL", "StrictJSON", "SystemIO",
            "TestIdentity", "TestServers", "TestSupport", configuration, httpClient, httpTypes, hummingbird, lifecycle, logging, nio,
            nioEmbedded, nioHTTP1], exclude: ["Clients", "Fuzzing/README.md", "Fuzzing/Corpus", "Fuzzing/FuzzerMain.swift"]),
        tests("TokenServiceTests", above("API") + ["Broker", "Fuzzing", "Observability", "OpenSSL", "Postgres", "PushAPI", "PushCtl",
            "PushModel", "RabbitMQ", "StatementSources", "StrictJSON", "TestBroker", "TestDatabase", "TestSupport", "TokenService",
            arguments, configuration, httpClient, httpTypes, hummingbird, lifecycle, logging, nio, nioEmbedded, nioHTTP1, nioHTTPTypes,
            nioHTTPTypesHTTP1, nioPosix, nioSSL], exclude: ["Fuzzing/README.md", "Fuzzing/Corpus", "Fuzzing/FuzzerMain.swift"]),
        tests("DispatcherTests", ["APNs", "APNsSimulator", "Broker", "Dispatcher", "Fuzzing", "HTTP2", "Observability", "OpenSSL",
            "PushModel", "RabbitMQ", "SystemIO", "TestBroker", "TestIdentity", "TestServers", "TestSupport", configuration, lifecycle,
            logging, protobuf], exclude: ["README.md", "Fuzzing/README.md", "Fuzzing/Corpus", "Fuzzing/FuzzerMain.swift"]),
        tests("PushAPITests", ["PushAPI", "StrictJSON", "TestSupport"]),
        tests("PushCtlTests", ["Observability", "PushAPI", "PushCtl", "StrictJSON", "SystemIO", "TestServers", "TestSupport", arguments]),
        tests("PushClientTests", ["PushClient", "TestDevice", "TestSupport", crypto]),
        tests("EndToEndTests", ["APNsSimulator", "Broker", "Postgres", "PushAPI", "PushClient", "PushModel", "StrictJSON", "SystemIO",
            "TestBroker", "TestDatabase", "TestDevice", "TestServers", "TestSupport", httpClient, nio, nioHTTP1], exclude: ["Peers"]),
        .target(name: "BenchmarkSupport", dependencies: ["PushAPI", "StrictJSON", "SystemIO", "TestSupport"],
            path: "Tests/Benchmarks/BenchmarkSupport", swiftSettings: fenced),
        benchmark("JobCodecBenchmark", ["PushModel", "StrictJSON"]),
        benchmark("DispatcherBenchmark", ["APNs", "BenchmarkSupport", "Broker", "Dispatcher", "HTTP2", "Observability", "OpenSSL",
            "PushModel", "RabbitMQ", "StrictJSON", "SystemIO", "TestSupport", arguments, configuration, logging]),
        benchmark("InstructionCount", ["APNs", "Broker", "Dispatcher", "HTTP2", "OpenSSL", "PushModel", "RabbitMQ", arguments]),
        .executableTarget(name: "BareConsumer", dependencies: ["CRabbitMQ"], path: "Tests/Benchmarks/BareConsumer"),
        .executableTarget(name: "BarePublisher", dependencies: ["CRabbitMQ"], path: "Tests/Benchmarks/BarePublisher"),
        benchmark("NotificationBenchmark", ["APNsSimulator", "BenchmarkSupport", "Broker", "OpenSSL", "PushAPI", "PushModel", "RabbitMQ",
            "StrictJSON", "SystemIO", arguments]),
        benchmark("SimulatorBenchmark", ["APNsSimulator", "BenchmarkSupport", "OpenSSL", "StrictJSON", arguments]),
        benchmark("GrowthBenchmark", ["BenchmarkSupport", "PushAPI", "StatementSources", "StrictJSON", "SystemIO", arguments]),
        benchmark("RegistryBenchmark", ["BenchmarkSupport", "OpenSSL", "PushAPI", "PushModel", "StrictJSON", "SystemIO", "TestSupport",
            arguments]),
        chaos("ChaosLedger", ["PushModel", "StrictJSON", "SystemIO"]),
        chaosProgram("ChaosRun", ["Broker", "ChaosLedger", "PushAPI", "PushModel", "RabbitMQ", "StrictJSON", "SystemIO", "TestSupport",
            arguments, httpClient, nio]),
        chaos("ChaosChecking", ["APNsSimulator", "ChaosLedger", "PushModel", "StrictJSON"]),
        chaosProgram("ChaosChecker", ["ChaosChecking", "ChaosLedger", arguments]),
        tests("ChaosTests", ["APNsSimulator", "ChaosChecking", "ChaosLedger", "ChaosRun", "PushModel", "StrictJSON", "SystemIO",
            "TestSupport"]),
    ]
)

// deploy/fuzz: the same files as a program of libFuzzer's, in a build of its own.
if Context.environment["PUSH_FUZZ"] == "1" {
    package.targets.removeAll { $0.type == .test }
    package.targets.append(
        .executableTarget(
            name: "SimulatorFuzz", dependencies: ["APNsSimulator", "Fuzzing", "HTTP2", "OpenSSL", httpTypes, hummingbird, logging, nio,
                nioEmbedded],
            path: "Tests/APNsSimulatorTests/Fuzzing", exclude: ["Corpus", "README.md"], swiftSettings: base))
    package.targets.append(
        .executableTarget(
            name: "DispatcherFuzz", dependencies: ["APNs", "Dispatcher", "Fuzzing", "HTTP2", "OpenSSL", "PushModel", protobuf],
            path: "Tests/DispatcherTests/Fuzzing", exclude: ["Corpus", "README.md"], swiftSettings: base))
    // With this pass and the fuzzer's instrumentation, Swift 6.3.1 fails to compile the module.
    for target in package.targets where target.name.hasPrefix("TokenService") {
        target.swiftSettings?.append(.unsafeFlags(["-Xllvm", "-sil-disable-pass=copy-propagation"]))
    }
    package.targets.append(
        .executableTarget(
            name: "TokenServiceFuzz", dependencies: above("API") + ["Fuzzing", "Postgres", "PushModel", "RabbitMQ", "StrictJSON",
                "TestSupport", "TokenService", httpTypes, nio, nioEmbedded, nioHTTP1, nioHTTPTypes, nioHTTPTypesHTTP1],
            path: "Tests/TokenServiceTests", exclude: ["Fuzzing/Corpus", "Fuzzing/README.md"], sources: ["Fuzzing",
                "Support/SchemaCheck+JSONSchema.swift"], swiftSettings: base))
}

// deploy/chaos --controls: Shared/PushModel/DeliberateFault.swift, and the lines that name it.
if Context.environment["PUSH_DELIBERATE_FAULTS"] == "1" {
    for target in package.targets { target.swiftSettings?.append(.define("PUSH_DELIBERATE_FAULTS")) }
}
