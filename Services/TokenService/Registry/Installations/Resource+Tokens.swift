import HTTPTypes
package import TokenServiceApps
import TokenServiceKit

extension APIRoute {
    package static let searchToken = APIRoute(.post, "/v1/apps/{app}/tokens/search", .read, .devices, audit: .tokensRead)
    package static let logOutToken = APIRoute(.post, "/v1/apps/{app}/tokens/logout", .devices)
    package static let deregisterToken = APIRoute(.post, "/v1/apps/{app}/tokens/deregister", .devices)
}

extension Resource {
    package static let tokens = Resource(
        "Tokens", "For clients that know a device token and nothing else. Tokens travel in bodies, never in URLs.",
        [search, logOut, deregister])

    private static let search = Operation(
        .searchToken, "searchToken", "Which installation holds a token, and which did", parameters: [Parameter.tokens],
        request: .json(TokenSearch.request),
        answers: [Answer(200, "Those that hold it now, and those that once did.", .json(TokenSearch.hints))], problems: [.unsupportedValue])

    private static let logOut = Operation(
        .logOutToken, "logOutToken", "Sign out the installations that hold a token", "Idempotent; also succeeds for an unknown token.",
        request: .json(SignOut.ofToken), answers: [Answer(200, "No user is signed in there.", .json(SignOut.response))],
        problems: [.ownerMismatch])

    private static let deregister = Operation(
        .deregisterToken, "deregisterToken", "Deregister the installation that holds a token",
        "Idempotent; also succeeds for an unknown token.",
        request: .json(SignOut.ofToken), answers: [Answer(204, "It is gone.")], problems: [.ownerMismatch])
}
