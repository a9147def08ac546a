import Foundation
package import Hummingbird
import Observability
import Postgres
package import PushModel
import StrictJSON
import TokenServiceKit

/// One admitted request: its caller, its app, and ways to read the rest of it.
package struct APICall: Sendable {
    package let request: Request
    let parameters: Parameters
    package let caller: Caller
    /// Nil for the administrative routes alone.
    private let admittedApp: App?
    private let limits: AdmissionLimits

    package init(request: Request, parameters: Parameters, caller: Caller, app: App?, limits: AdmissionLimits) {
        self.request = request
        self.parameters = parameters
        self.caller = caller
        admittedApp = app
        self.limits = limits
    }

    package func app() throws -> App {
        guard let admittedApp else { throw APIError.notFound }
        return admittedApp
    }

    /// A part of the path that is a UUID.
    package func id(_ name: String) throws -> PushID {
        guard let id = PushID(try text(name, maximumBytes: 36)) else {
            throw APIError.invalid("the path's {\(name)}", .invalidID, "must be a UUID")
        }
        return id
    }

    /// A part of the path, percent-decoded.
    package func text(_ name: String, maximumBytes: Int) throws -> String {
        let given = parameters.get(name)
        // Decoding costs more than all the rest of the path, and most paths need none.
        let decoded = given?.utf8.contains(UInt8(ascii: "%")) == true ? given?.removingPercentEncoding : given
        guard let text = decoded, (1...maximumBytes).contains(text.utf8.count), !text.utf8.contains(where: { $0.isControl }) else {
            throw APIError.invalid(
                "the path's {\(name)}", .invalidPath, "must be 1 to \(maximumBytes) bytes of UTF-8 without control characters")
        }
        return text
    }

    /// A parameter of the query, decoded.
    /// - Throws: ``APIError`` 400 where it is not percent-encoded UTF-8, or holds a control character.
    package func query(_ name: String) throws -> String? {
        guard let parameter = FormQuery(request.uri.query).parameters.first(where: { $0.name == name }) else { return nil }
        guard let value = parameter.value, !value.utf8.contains(where: { $0.isControl }) else {
            throw APIError.invalid(name, .invalidEncoding, "must be percent-encoded UTF-8 without control characters")
        }
        return value
    }

    /// Counts this request as that many more against the key's rate. Later requests of the key wait at most a minute for it; the next
    /// answer's `RateLimit-Remaining` shows it.
    @Sendable package func charge(_ requests: Int) { limits.rates.charge(requests, to: caller) }

    /// Reads the body. While the client sends it, this request is not in progress.
    /// - Parameters:
    ///   - maximumBytes: This route's limit.
    ///   - isBudgeted: Whether a large body needs room among those of the other requests.
    /// - Throws: ``APIError`` 429 if the caller has its share of large bodies in memory, 503 if there is no room for this body, or for the
    ///   request when the body is there.
    package func body(maximumBytes: Int = CallBody.maximumBytes, isBudgeted: Bool = true) async throws -> CallBody {
        try await limits.shedding.whileReading {
            try await CallBody(of: request, maximumBytes: maximumBytes) { size in
                try isBudgeted ? limits.bodies.enter(caller, taking: size) : nil
            }
        }
    }

    /// The body of an answer that is written while it is worked on. The server asks for it after the handler has returned.
    /// - Parameters:
    ///   - place: Is given back at the end of the body.
    ///   - write: Runs off the event loop, in this request's trace and in its queue at the database.
    package func stream(
        holding place: SharedLimit.Place, _ write: @escaping @concurrent @Sendable (inout any ResponseBodyWriter) async throws -> Void
    ) -> ResponseBody {
        let (trace, queue) = (TraceContext.current, caller.queue)
        return ResponseBody { writer in
            defer { place.end() }
            try await TraceContext.with(trace) {
                try await PostgresPool.$queue.withValue(queue) {
                    try await withTaskExecutorPreference(globalConcurrentExecutor) { try await write(&writer) }
                }
            }
        }
    }
}

/// The limits that a request meets at its admission, and again when its body is read.
package struct AdmissionLimits: Sendable {
    package let rates: RequestRates
    /// Requests of each caller, from their admission to their answer.
    package let callers: SharedLimit
    package let shedding: LoadShedding
    /// Bytes of large bodies.
    package let bodies: SharedLimit

    package init(rates: RequestRates, callers: SharedLimit, shedding: LoadShedding, bodies: SharedLimit) {
        self.rates = rates
        self.callers = callers
        self.shedding = shedding
        self.bodies = bodies
    }
}
