import HTTPTypes
import PushModel
import StrictJSON
import Testing
import TokenServiceAPI
import TokenServiceApps
import TokenServiceKit
import TokenServiceSending

/// Generated from the API's description: each limit, each word and each required field is tried.
@Suite("What the description forbids is refused at its place, and what it allows is not", .serialized, .timeLimit(.minutes(5)))
struct DescribedLimitsTests {
    /// A key for everything in the app, or the administrator's.
    private static func client(of operation: Operation, _ running: RunningService, _ shop: APITestClient) -> APITestClient {
        operation.route.isOfApp ? shop : running.client
    }

    private static func path(of operation: Operation) throws -> String {
        try operation.pathParameters.reduce(operation.route.path) { path, parameter in
            let value = parameter.name == "app" || parameter.name == "slug" ? "shop" : try parameter.example
            return path.replacing("{\(parameter.name)}", with: value)
        }
    }

    private static func withShop(_ body: @Sendable (RunningService, APITestClient) async throws -> Void) async throws {
        try await RunningService.run { running in
            _ = try await running.client.makeApp()
            try await body(running, try await running.client.makeKey(app: "shop", scopes: ["devices", "send", "read", "admin"]))
        }
    }

    // MARK: The query

    @Test("Every query parameter holds to its schema") func queryParameters() async throws {
        try await Self.withShop { running, shop in
            for operation in OpenAPIDocument.operations {
                let parameters = operation.parameters.filter { $0.place == .query }
                let client = Self.client(of: operation, running, shop)
                let path = try Self.path(of: operation)
                let body = operation.request.flatMap { $0.isLines ? nil : $0.schema.example.json }
                func call(_ query: [(String, String)]) async throws -> APITestClient.Answer {
                    let text = query.map { "\($0.0)=\($0.1.formEncoded)" }.joined(separator: "&")
                    return try await client.call(operation.route.method.rawValue, text.isEmpty ? path : "\(path)?\(text)", body)
                }
                for parameter in parameters {
                    let others = try parameters.filter { $0.isRequired && $0.name != parameter.name }.map { ($0.name, try $0.example) }
                    for bad in parameter.forbidden {
                        let answer = try await call(others + [(parameter.name, bad)])
                        #expect(answer.status == 400, "\(operation.id) takes \(parameter.name)=\(bad.prefix(80))")
                    }
                    for good in try parameter.allowed {
                        let answer = try await call(others + [(parameter.name, good)])
                        // A cursor is what a page before has given, and nothing else.
                        #expect(
                            answer.status != 400 || parameter.name == "cursor",
                            "\(operation.id) refuses \(parameter.name)=\(good.prefix(80))")
                    }
                    let value = try parameter.example
                    #expect(try await call(others + [(parameter.name, value), (parameter.name, value)]).status == 400)
                    let absent = try await call(others)
                    // Whose Live Activity it is, says one of two.
                    let isOneOfTwo = operation.route == .readLiveActivity
                    #expect(
                        (absent.status == 400) == (parameter.isRequired || isOneOfTwo),
                        "\(operation.id) without \(parameter.name): \(absent.status)")
                }
            }
        }
    }

    // MARK: Bodies

    @Test("Every field of a body holds to its schema") func bodyFields() async throws {
        try await Self.withShop { running, shop in
            for operation in OpenAPIDocument.operations {
                guard let body = operation.request, !body.isLines else { continue }
                // Items with a fate of their own are not the request's faults.
                let mutations = SchemaMutations(depth: body.isItemwise ? 1 : 4).forbidden(body.schema)
                let path = try Self.path(of: operation)
                for mutation in mutations {
                    let answer = try await Self.client(of: operation, running, shop).call(
                        operation.route.method.rawValue, path, mutation.value.json, headers: ["content-type": body.mediaTypes[0]])
                    #expect(
                        answer.status == 400 && answer.names(mutation.pointer),
                        "\(operation.id) \(mutation.pointer) \(mutation.what): \(answer.status) \(answer.problems)")
                }
            }
        }
    }

    @Test("The service takes every whole number in its range, however written, and repeated items unless the description forbids them")
    func allowedValues() async throws {
        try await Self.withShop { running, shop in
            for operation in OpenAPIDocument.operations {
                guard let body = operation.request, !body.isLines, !body.isItemwise else { continue }
                let path = try Self.path(of: operation)
                // How long APNs may store a notification is bounded by the clock, which the description cannot name.
                for mutation in SchemaMutations().allowed(body.schema) where mutation.pointer != "/apns_expiration" {
                    let answer = try await Self.client(of: operation, running, shop).call(
                        operation.route.method.rawValue, path, mutation.value.json, headers: ["content-type": body.mediaTypes[0]])
                    #expect(answer.status < 500)
                    // Other fields of the example may contradict each other.
                    #expect(
                        !answer.problems.contains { $0.hasPrefix(mutation.pointer) && !$0.hasSuffix(" conflict") },
                        "\(operation.id) \(mutation.pointer) \(mutation.what): \(answer.problems)")
                }
            }
        }
    }

    @Test("A whole badge reaches Apple without a fraction") func wholeBadge() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let body = #"{"to":{"user":"ada"},"content":{"alert":"Hello","badge":3.0}}"#
            let answer = try await shop.post("/v1/apps/shop/notifications/validate", body)
            #expect(answer.status == 200 && answer.json["payloads"]?[0]?["payload"]?["aps"]?["badge"]?.integerValue == 3)
        }
    }

    // MARK: Words

    /// Its user stays, and yet nothing that was queued for it may reach the device that has the token now.
    @Test("The owner epoch grows when another user takes the token") func lostToken() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            #expect(try await shop.record(installation(1)).number("owner_epoch") == 1)
            try await shop.register(installation(2), user: "bob", token: token(1))
            let record = try await shop.record(installation(1))
            #expect(record.text("user") == "ada" && record.number("owner_epoch") == 2)
            let fields = try #require(OpenAPIDocument.schemas["Installation"]?.objectFields)
            let words = try #require(fields.first { $0.name == "owner_epoch" }?.schema.description)
            #expect(words.contains("another user takes its token"))
        }
    }
}

extension Parameter {
    /// As text, for a query or a path.
    fileprivate var example: String {
        get throws {
            switch schema.example {
            case .text(let text): text
            case .integer(let number): "\(number)"
            case let other: throw NoExample(description: "\(name): \(other)")
            }
        }
    }

    fileprivate var forbidden: [String] {
        switch schema.kind {
        case .string(let text):
            [
                text.maximum.map { String(repeating: "a", count: $0 + 1) }, text.minimum ?? 0 > 0 ? "" : nil, text.unmatched,
            ].compactMap(\.self)
        case .integer(let minimum, let maximum):
            [minimum.map { "\($0 - 1)" }, maximum.map { "\($0 + 1)" }, "x", "1.5", ""].compactMap(\.self)
        case .words: ["nonsense", ""]
        default: []
        }
    }

    fileprivate var allowed: [String] {
        get throws {
            switch schema.kind {
            case .string(let text) where text.pattern ?? JSONSchema.withoutControls == JSONSchema.withoutControls && text.format == nil:
                try [example, String(repeating: "a", count: text.maximum ?? 1)]
            case .integer(let minimum, let maximum): [minimum, maximum].compactMap(\.self).map { "\($0)" }
            case .words(let words): words
            default: [try example]
            }
        }
    }

    private struct NoExample: Error, CustomStringConvertible { let description: String }
}

extension APITestClient.Answer {
    /// Whether the answer names a fault of this place, of something in it, or of what it is in.
    fileprivate func names(_ pointer: String) -> Bool {
        (json["errors"]?.arrayValue ?? []).compactMap { $0.text("pointer") }.contains { place in
            place.hasPrefix(pointer) || !place.isEmpty && pointer.hasPrefix(place)
        }
    }
}

extension JSONSchema {
    fileprivate var objectFields: [Field]? {
        if case .object(let fields, _) = kind { fields } else { nil }
    }
}

extension String {
    fileprivate var formEncoded: String { utf8.map { "%" + String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined() }
}
