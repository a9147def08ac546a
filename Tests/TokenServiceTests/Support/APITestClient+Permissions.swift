import PushModel
import TokenServiceRegistry

/// The numbers of the installations that ``APITestClient/registerPermissions()`` makes, and the permission that each has reported.
let reportedPermissions: [(number: Int, permission: ReportedPermission)] = Array(zip(1..., ReportedPermission.allCases))

extension APITestClient {
    /// One installation for each permission, and one that has reported none. All have the tag `beta`, and each its own user and token.
    func registerPermissions() async throws {
        for (number, permission) in reportedPermissions {
            let stated = if case .reported(let word) = permission { #","permission":"\#(word.rawValue)""# } else { "" }
            try await register(
                installation(number), user: permission.rawValue, token: token(number), more: stated, tags: ["beta"])
        }
    }
}
