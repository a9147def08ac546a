import APNs
import PushModel

/// Which pool serves an app in an environment. A pool is one credential in one environment (DESIGN.md section 5).
struct CredentialDirectory: Sendable {
    typealias AppIndex = ControlState.AppIndex

    struct Pool: Sendable {
        let credential: APNsCredential
        let environment: APNsEnvironment
    }

    private struct Places: Sendable {
        var production: Int?
        var sandbox: Int?
    }

    /// Of apps that no credential names. What is sent for them waits until one does.
    static let unknownApp = AppIndex.max

    let pools: [Pool]
    private let indices: [AppSlug: AppIndex]
    private let places: [Places]

    /// - Precondition: fewer than 65,535 apps.
    init(_ file: CredentialsFile) {
        var pools: [Pool] = []
        var indices: [AppSlug: AppIndex] = [:]
        var places: [Places] = []
        for entry in file.entries {
            for environment in entry.environments {
                pools.append(Pool(credential: entry.credential, environment: environment))
                for app in entry.apps {
                    let index = indices[app] ?? AppIndex(places.count)
                    if Int(index) == places.count {
                        indices[app] = index
                        places.append(Places())
                    }
                    switch environment {
                    case .production: places[Int(index)].production = pools.count - 1
                    case .sandbox: places[Int(index)].sandbox = pools.count - 1
                    }
                }
            }
        }
        self.pools = pools
        self.indices = indices
        self.places = places
    }

    func index(of app: AppSlug) -> AppIndex { indices[app] ?? Self.unknownApp }
    func knownIndex(of app: AppSlug) -> AppIndex? { indices[app] }

    func pool(app: AppIndex, _ environment: APNsEnvironment) -> Int? {
        guard Int(app) < places.count else { return nil }
        return switch environment {
        case .production: places[Int(app)].production
        case .sandbox: places[Int(app)].sandbox
        }
    }
}
