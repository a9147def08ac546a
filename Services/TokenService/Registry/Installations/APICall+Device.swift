package import TokenServiceApps
import TokenServiceKit

/// What a device credential adds to a call (``Caller/device``).
extension APICall {
    /// The owner that the registry must find.
    /// - Parameter expected: of the request; a device's credential says more.
    package func owner(expected: ExpectedOwner) -> ExpectedOwner {
        caller.device.map { .device(user: $0.user, ownerEpoch: $0.ownerEpoch) } ?? expected
    }

    /// The same for a request that states the owner.
    /// - Throws: ``APIError`` 403 if a device states another user than its credential's.
    func owner(expected: ExpectedOwner, stating user: String?) throws -> ExpectedOwner {
        if let device = caller.device, !device.user.hasSameBytes(as: user) {
            throw APIError(.forbidden, "a device credential registers its own user, and this names another one")
        }
        return owner(expected: expected)
    }

    /// Runs a change. If the registry finds another owner, a device learns that its credential is over.
    package func byDevice<Result>(_ change: () async throws -> Result) async throws -> Result {
        do {
            return try await change()
        } catch is OwnerMismatch where caller.device != nil {
            throw APIError.credentialRevoked
        }
    }
}
