public import AsyncHTTPClient
import Foundation

/// The token service's HTTP API, for a backend.
///
/// A value, cheap to copy, for any number of tasks at once. ``app(_:)`` gives the typed operations of one app. ``call(_:)`` is for every
/// other route.
///
/// A call that fails for now is repeated: no answer came, or the service answered 429, 503 or another refusal that may pass. The client
/// waits as long as `Retry-After` asks for, and a random time more that doubles with each attempt. If the next attempt would begin after
/// ``deadline``, the call throws the last failure. A call that must not reach the service twice is repeated after 429 alone.
public struct PushAPI: Sendable {
    /// The server's URL without a slash at its end.
    public let baseURL: String
    /// Nil for a server that asks for none.
    public let key: String?
    /// A call has this long, with all its attempts.
    public var deadline: Duration
    /// One attempt has this long, from the connection to the last byte of the answer.
    public var attemptTimeout: Duration
    let http: HTTPClient
    /// Why no call can go to ``baseURL``; nil if one can.
    let fault: String?
    var clock = CallClock.continuous

    /// ``HTTPClient/shared`` without redirects: a call goes to ``baseURL`` alone. It lives as long as the process and needs no shutdown.
    public static let sharedHTTP: HTTPClient = {
        var configuration = HTTPClient.Configuration.singletonConfiguration
        configuration.redirectConfiguration = .disallow
        return HTTPClient(configuration: configuration)
    }()

    /// - Parameters:
    ///   - baseURL: `https://push.example.com`.
    ///   - key: An API key, `psh_…`, with the scopes that the calls need.
    ///   - http: Carries the calls. The caller that made it shuts it down. One of your own should follow no redirects.
    ///   - deadline: How long a call has, with all its attempts.
    ///   - attemptTimeout: How long one attempt has.
    public init(
        baseURL: String, key: String?, http: HTTPClient = PushAPI.sharedHTTP, deadline: Duration = .seconds(30),
        attemptTimeout: Duration = .seconds(10)
    ) {
        self.baseURL = baseURL.hasSuffix("/") ? String(baseURL.dropLast()) : baseURL
        fault = Self.fault(of: baseURL)
        self.key = key
        self.http = http
        self.deadline = deadline
        self.attemptTimeout = attemptTimeout
    }

    private static func fault(of url: String) -> String? {
        guard url.utf8.allSatisfy({ (0x21...0x7e).contains($0) }) else {
            return "has characters that are not printable ASCII: write an international host name as xn--…"
        }
        // The range is one of the text that the components make, in which they escape characters.
        guard let parts = URLComponents(string: url), let text = parts.string, let range = parts.rangeOfPort else { return nil }
        guard let port = Int(text[range]), (1...65_535).contains(port) else { return "has a port that is not from 1 to 65535" }
        return nil
    }

    /// The operations on one app.
    /// - Parameter slug: The app's name on the platform.
    public func app(_ slug: String) -> App { App(api: self, slug: slug) }

    /// Installations and notifications of one app. The extensions hold its operations.
    public struct App: Sendable {
        public let api: PushAPI
        public let slug: String

        /// - Parameter parts: Each is one part of the path, with any characters.
        func path(_ parts: String...) -> String { "/v1/apps" + ([slug] + parts).map { "/\($0.percentEncoded)" }.joined() }
    }
}

/// Why a call has no result.
///
/// A cancelled task throws `CancellationError` instead.
public enum PushAPIError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The service answered with a refusal.
    case refused(PushAPI.Problem)
    /// No whole answer came. The service may have done what the call asks for.
    case lostConnection(String)
    /// The answer is not what the API describes, or a value of the caller's is no JSON or no URL.
    case unreadable(String)

    /// Whether the same call may succeed later.
    public var isTemporary: Bool {
        switch self {
        case .refused(let problem): problem.isTemporary
        case .lostConnection: true
        case .unreadable: false
        }
    }

    public var description: String {
        switch self {
        case .refused(let problem): problem.description
        case .lostConnection(let words), .unreadable(let words): words
        }
    }
}
