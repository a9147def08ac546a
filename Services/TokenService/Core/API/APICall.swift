import Foundation
import Hummingbird
import PushModel
import StrictJSON

/// One request that was let in: who calls, for which app, and ways to read the rest of it.
struct APICall: Sendable {
    let request: Request
    let parameters: Parameters
    let caller: Caller
    /// Nil for the administrative routes alone.
    private let admittedApp: App?

    init(request: Request, parameters: Parameters, caller: Caller, app: App?) {
        self.request = request
        self.parameters = parameters
        self.caller = caller
        admittedApp = app
    }

    func app() throws -> App {
        guard let admittedApp else { throw APIError.notFound }
        return admittedApp
    }

    /// A part of the path that is a UUID.
    func id(_ name: String) throws -> PushID {
        guard let id = PushID(try text(name, maximumBytes: 36)) else {
            throw APIError.invalid("the path's {\(name)}", "invalid_id", "must be a UUID")
        }
        return id
    }

    /// A part of the path, percent-decoded.
    func text(_ name: String, maximumBytes: Int) throws -> String {
        guard let text = parameters.get(name)?.removingPercentEncoding, (1...maximumBytes).contains(text.utf8.count), !text.utf8.contains(0)
        else { throw APIError.invalid("the path's {\(name)}", "invalid_path", "must be 1 to \(maximumBytes) bytes of UTF-8") }
        return text
    }

    func query(_ name: String) -> String? {
        request.uri.queryParameters.get(name)
    }

    /// - Parameter orType: A media type that is welcome beside `application/json`.
    func body(orType: String? = nil, maximumBytes: Int = RequestBody.maximumBytes) async throws -> RequestBody {
        try await RequestBody(of: request, orType: orType, maximumBytes: maximumBytes)
    }
}
