import APNsSimulator
import ArgumentParser

/// `apns-simulator scenarios`: lists them, shows one, and checks a file.
struct Scenarios: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "List the scenarios that come with the program, print one, or check a file of your own.",
        discussion: """
            A printed scenario is a file to begin with:

              apns-simulator scenarios bad-day >mine.json

            A scenario may also choose how APNs behaves where Apple's pages, Apple's
            engineers and other clients disagree. The first value is the default:

              "readings": {"token_updates":"team","stored":"app"}


            """ + Readings.help)

    @Argument(help: "Print this one.") var name: String?
    @Option(help: "Check this scenario file and say what is wrong with it.") var check: String?

    func validate() throws {
        if name != nil, check != nil { throw ValidationError("Either a name or --check.") }
    }

    func run() throws {
        if let check {
            let scenario = try Scenario(file: check)
            print("\(check): \(scenario.summary)")
        } else if let name {
            _ = try ReadyScenario.named(name)
            print(ReadyScenario(rawValue: name)?.text ?? "")
        } else {
            let width = ReadyScenario.allCases.map(\.rawValue.count).max() ?? 0
            for ready in ReadyScenario.allCases {
                print(ready.rawValue + String(repeating: " ", count: width - ready.rawValue.count + 2) + (try ready.scenario.about))
            }
        }
    }
}
