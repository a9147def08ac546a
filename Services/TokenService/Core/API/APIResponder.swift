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
        for shortcut in shortcuts where shortcut.route.method == request.method {
            if let parameters = shortcut.template.match(path) { return (shortcut, Parameters(parameters)) }
        }
        return nil
    }
}

/// A route's path, to compare others with.
struct RouteTemplate: Sendable {
    private enum Segment: Sendable {
        case literal([UInt8])
        case parameter(Substring)
    }

    private let segments: [Segment]

    /// - Parameter path: `/` and segments; `{name}` stands for any.
    init(_ path: String) {
        segments = path.split(separator: "/").map { segment in
            segment.hasPrefix("{") && segment.hasSuffix("}") ? .parameter(segment.dropFirst().dropLast()) : .literal(Array(segment.utf8))
        }
    }

    /// - Parameter path: A query may follow.
    /// - Returns: What stands in the places of the parameters, not decoded; nil where it is another path.
    func match(_ path: String) -> [(key: Substring, value: Substring)]? {
        let bytes = path.utf8.span
        var position = 0
        var parameters: [(key: Substring, value: Substring)] = []
        for segment in segments {
            guard position < bytes.count, bytes[position] == UInt8(ascii: "/") else { return nil }
            position += 1
            switch segment {
            case .literal(let literal):
                guard Self.stands(literal, at: position, in: bytes) else { return nil }
                position += literal.count
            case .parameter(let name):
                let start = path.utf8.index(path.startIndex, offsetBy: position)
                position += Self.length(from: position, in: bytes)
                let end = path.utf8.index(path.startIndex, offsetBy: position)
                guard start < end else { return nil }
                parameters.append((key: name, value: path[start..<end]))
            }
        }
        guard position == bytes.count || bytes[position] == UInt8(ascii: "?") || bytes[position] == UInt8(ascii: "#") else { return nil }
        return parameters
    }

    private static func stands(_ literal: [UInt8], at position: Int, in bytes: Span<UInt8>) -> Bool {
        guard bytes.count - position >= literal.count else { return false }
        for index in literal.indices where bytes[position + index] != literal[index] { return false }
        return true
    }

    /// Of what ends with the segment or the path.
    private static func length(from start: Int, in bytes: Span<UInt8>) -> Int {
        var position = start
        while position < bytes.count {
            switch bytes[position] {
            case UInt8(ascii: "/"), UInt8(ascii: "?"), UInt8(ascii: "#"): return position - start
            default: position += 1
            }
        }
        return position - start
    }
}
