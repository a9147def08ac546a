import APNs
import PushModel

/// Names one pool of this process; never used twice, so that a request for an old pool cannot reach a new one.
typealias PoolNumber = Int

/// The pools that a credentials file asks for. A pool is one credential in one environment.
struct CredentialPlan: Sendable {
    struct Pool: Sendable {
        let number: PoolNumber
        let environment: APNsEnvironment
        let entry: CredentialsEntry

        var credential: APNsCredential { entry.credential }
    }

    let pools: [Pool]
    private let nextNumber: PoolNumber

    /// - Parameter previous: its unchanged pools stay, under their numbers.
    init(_ file: CredentialsFile, after previous: CredentialPlan? = nil) {
        var next = previous?.nextNumber ?? 0
        pools = file.entries.flatMap { entry in
            entry.environments.map { environment in
                let known = previous?.pools.first { $0.environment == environment && $0.entry.isSame(as: entry) }
                defer { if known == nil { next += 1 } }
                return Pool(number: known?.number ?? next, environment: environment, entry: entry)
            }
        }
        nextNumber = next
    }

    var numbers: Set<PoolNumber> { Set(pools.map(\.number)) }
}

extension CredentialsEntry {
    fileprivate func isSame(as other: CredentialsEntry) -> Bool {
        credential.name == other.credential.name && digest == other.digest
    }
}
