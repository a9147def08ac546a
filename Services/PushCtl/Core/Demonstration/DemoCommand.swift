import ArgumentParser
import PushAPI

struct DemoCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "demo", abstract: "Show the platform doing its main job, against the APNs simulator.",
        discussion: """
            Registers users and devices, sends, and follows every delivery to the simulated lock screens: reinstalls, a shared device, a dead token, \
            a throttled device, a logout, and an app whose token comes early. Needs an administrator's key, and dispatchers whose APNs is \
            the simulator. Ends with 1 when a step did not happen.
            """)
    @OptionGroup var connection: ConnectionOptions
    @Option(help: "The simulator's control address.") var simulator = "http://127.0.0.1:2199"
    @Option(help: "The app; it must be one of the dispatcher's credentials.") var app = "shop"
    @Option(help: "The last line: what to open next. Default: the simulator's page and the API's.") var next: String?

    func run() async throws {
        let simulator = try ServiceAddress.parse(simulator, from: "--simulator")
        try await connection.withClient { admin in
            var demonstration = try await Demonstration(admin: admin, simulator: admin.other(baseURL: simulator, key: nil), app: app)
            try await demonstration.run()
            let pages = "Next, in a browser: \(simulator) shows these lock screens, \(admin.baseURL)/docs the API."
            try demonstration.report.end(next ?? pages)
        }
    }
}
