import HTTPTypes
import Hummingbird

/// Hummingbird's router, and before it a short way for the routes that are called most: its trie costs a request as much as reading its JSON.
/// Whatever the short way does not know exactly as it is written goes through the router.
struct APIResponder: HTTPResponder {
    typealias Context = APIRequestContext

    /// Routes that no other one shares a place in the path with.
    static let frequent: [APIRoute] = [.register, .readInstallation, .listUserInstallations, .send]

    struct Shortcut: Sendable {
        let template: RouteTemplate
        let route: APIRoute
        let handler: APIRouter.Handler
    }

    let shortcuts: [Shortcut]
    let entrance: Entrance
    let observation: RequestObservation
    let router: RouterResponder<APIRequestContext>

    func respond(to request: Request, context: APIRequestContext) async throws -> Response {
        guard let (shortcut, parameters) = shortcut(for: request) else { return try await router.respond(to: request, context: context) }
        var context = context
        context.coreContext.parameters = parameters
        context.coreContext.endpointPath.value = shortcut.route.path
        return try await observation.handle(request, context: context) { [entrance] request, context in
            try await entrance.answer(request, context, shortcut.route, shortcut.handler)
        }
    }

    private func shortcut(for request: Request) -> (Shortcut, Parameters)? {
        guard let path = request.head.path else { return nil }
        let segments = RouteTemplate.segments(of: path)
        for shortcut in shortcuts where shortcut.route.method == request.method {
            if let parameters = shortcut.template.match(segments) { return (shortcut, parameters) }
        }
        return nil
    }
}

/// A route's path, to compare others with.
struct RouteTemplate: Sendable {
    private enum Segment: Sendable {
        case literal(Substring)
        case parameter(Substring)
    }

    private let segments: [Segment]

    init(_ path: String) {
        segments = Self.segments(of: path).map { segment in
            segment.hasPrefix("{") && segment.hasSuffix("}") ? .parameter(segment.dropFirst().dropLast()) : .literal(segment)
        }
    }

    /// Up to the query; the first is empty, because a path begins with a slash.
    static func segments(of path: String) -> [Substring] {
        let end = path.utf8.firstIndex { $0 == UInt8(ascii: "?") || $0 == UInt8(ascii: "#") } ?? path.endIndex
        return path.utf8[..<end].split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false).map { Substring($0) }
    }

    /// - Returns: What stands in the places of the parameters, not decoded; nil where it is another path.
    func match(_ given: [Substring]) -> Parameters? {
        guard given.count == segments.count else { return nil }
        var parameters: [(key: Substring, value: Substring)] = []
        for (segment, text) in zip(segments, given) {
            switch segment {
            case .literal(let literal): guard literal == text else { return nil }
            case .parameter(let name):
                guard !text.isEmpty else { return nil }
                parameters.append((key: name, value: text))
            }
        }
        return Parameters(parameters)
    }
}
