package import HTTPTypes

/// One operation of the API and who may use it. The table is the whole API: the router, the documentation and the tests read it.
package struct APIRoute: Hashable, Sendable {
    package let method: HTTPRequest.Method
    /// With `{name}` for what varies.
    package let path: String
    /// Any one of these is enough. Empty: open to all, for the machines that run us.
    package let scopes: [Scope]

    /// An administrator's key must be bound to no app.
    package var isAdministrative: Bool { scopes == [.admin] }
    package var isOfApp: Bool { path.contains("{app}") }

    private init(_ method: HTTPRequest.Method, _ path: String, _ scopes: Scope...) {
        self.method = method
        self.path = path
        self.scopes = scopes
    }

    package static let createApp = APIRoute(.post, "/v1/admin/apps", .admin)
    package static let listApps = APIRoute(.get, "/v1/admin/apps", .admin)
    package static let createKey = APIRoute(.post, "/v1/admin/keys", .admin)
    package static let listKeys = APIRoute(.get, "/v1/admin/keys", .admin)
    package static let revokeKey = APIRoute(.delete, "/v1/admin/keys/{id}", .admin)
    package static let register = APIRoute(.put, "/v1/apps/{app}/installations/{id}", .devices)
    package static let readInstallation = APIRoute(.get, "/v1/apps/{app}/installations/{id}", .read, .devices)
    package static let deregister = APIRoute(.delete, "/v1/apps/{app}/installations/{id}", .devices)
    package static let logOut = APIRoute(.post, "/v1/apps/{app}/installations/{id}/logout", .devices)
    package static let logOutToken = APIRoute(.post, "/v1/apps/{app}/tokens/logout", .devices)
    package static let listInstallations = APIRoute(.get, "/v1/apps/{app}/users/{user}/installations", .read, .devices)
    package static let logOutUser = APIRoute(.post, "/v1/apps/{app}/users/{user}/logout", .devices)
    package static let send = APIRoute(.post, "/v1/apps/{app}/notifications", .send)
    package static let readNotification = APIRoute(.get, "/v1/apps/{app}/notifications/{id}", .read)

    package static let all: [APIRoute] = [
        createApp, listApps, createKey, listKeys, revokeKey, register, readInstallation, deregister, logOut, logOutToken,
        listInstallations, logOutUser, send, readNotification,
    ]
}
