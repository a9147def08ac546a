package import HTTPTypes
package import Hummingbird

/// One operation of the API and who may use it. A room declares its routes beside the words for them; ``all`` and ``open`` are the table
/// that the documentation and the tests read.
package struct APIRoute: Hashable, Sendable {
    package let method: HTTPRequest.Method
    /// With `{name}` for a parameter.
    package let path: String
    /// Any one of these is enough. Empty: open to all, for probes and scrapers.
    package let scopes: [Scope]

    /// An operation on no single app needs an administrator's key that is bound to no app.
    package var isAdministrative: Bool { scopes == [.admin] && !isOfApp }
    package let isOfApp: Bool
    /// A device may use it with its credential, for its own installation.
    package let isForDevices: Bool

    /// What the audit trail calls its use; nil: the trail does not know it. Routes that read record it for `tokens=full` alone.
    package let audit: AuditAction?

    package init(
        _ method: HTTPRequest.Method, _ path: String, _ scopes: Scope..., forDevices: Bool = false, audit: AuditAction? = nil
    ) {
        self.method = method
        self.path = path
        self.scopes = scopes
        isForDevices = forDevices
        self.audit = audit
        isOfApp = path.contains("{app}")
    }
}

/// Takes a room's handlers, so that a room need not know what runs before them.
package protocol RouteBinder: AnyObject {
    typealias Handler = @Sendable (APICall) async throws -> Response

    func on(_ route: APIRoute, _ handler: @escaping Handler)
}
