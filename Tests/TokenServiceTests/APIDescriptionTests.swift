import Configuration
import FoundationEssentials
import HTTPTypes
import Logging
import Observability
import StrictJSON
import TestSupport
import Testing
import TokenService
import TokenServiceAPI
import TokenServiceApps
import TokenServiceKit

@Suite("The API's description is whole, valid and about the real routes")
struct APIDescriptionTests {
    private static func document() throws -> DocumentNode {
        DocumentNode(try JSONValue.parse(Array(OpenAPIDocument.text.utf8), maximumBytes: 4 << 20))
    }

    private static func name(_ route: APIRoute) -> String { "\(route.method.rawValue) \(route.path)" }

    @Test("The description has every route of the router, and the router every route of the description") func sameRoutes() throws {
        let variables = ["POSTGRES_URL": "postgresql://push@localhost/push", "RABBITMQ_URL": "amqp://localhost/"]
        let config = ConfigReader(provider: EnvironmentVariablesProvider(environmentVariables: variables))
        let logger = Logger(label: "test")
        let service = try TokenService(TokenServiceConfiguration(config, logger: logger), metrics: PrometheusMetrics(), logger: logger)
        // HEAD is GET without the body (RFC 9110 section 9.3.2).
        let served = service.routes.filter { !$0.hasPrefix("HEAD ") }
        #expect(served.sorted() == OpenAPIDocument.operations.map { Self.name($0.route) }.sorted())
    }

    @Test("Each route is one operation that states the route's scopes") func oneOperationEach() throws {
        let routes = APIRoute.all + APIRoute.open
        #expect(Set(OpenAPIDocument.operations.map(\.id)).count == routes.count)
        let document = try Self.document()
        for route in routes {
            let operation = try #require(document["paths"]?[route.path]?[route.method.rawValue.lowercased()])
            let description = try #require(operation["description"]?.text)
            // "Scope: devices, send or read."
            let sentence = description.components(separatedBy: "Scope: ").dropFirst().first?.prefix { $0 != "." } ?? ""
            let words = sentence.split { !$0.isLetter }.map(String.init)
            let stated = KeyScope.allCases.filter { words.contains($0.rawValue) }
            #expect(Set(stated) == Set(route.scopes), "\(Self.name(route))")
            #expect((operation["security"] == .list([])) == route.scopes.isEmpty)
            #expect(description.contains("bound to no app") == route.isAdministrative)
        }
    }

    @Test("Every problem belongs to an operation") func answeredProblems() {
        let answered = Set(OpenAPIDocument.operations.flatMap(\.problems))
        // An operation is a method that the path takes.
        for code in ProblemCode.allCases where code != .methodNotAllowed {
            #expect(answered.contains(code), "no operation answers \(code.rawValue)")
        }
    }

    @Test("The JSON text equals the data, and every reference in it leads somewhere") func textAndData() throws {
        let document = try Self.document()
        #expect(document == OpenAPIDocument.node)
        #expect(document["openapi"]?.text == "3.1.0")
        let references = document.all("$ref").compactMap(\.text)
        #expect(references.count > 100)
        for reference in Set(references) {
            #expect(reference.hasPrefix("#/") && document.find(reference) != nil, "\(reference) leads nowhere")
        }
    }

    @Test("A name stands for one schema") func schemaNames() {
        let bodies = OpenAPIDocument.operations.flatMap { operation in
            [operation.request?.schema] + operation.answers.map { $0.body?.schema }
        }
        for (name, schema) in bodies.compactMap(\.self).flatMap(\.everyNamed) {
            #expect(OpenAPIDocument.schemas[name]?.node == schema.node, "\(name)")
        }
    }

    @Test("Every example and every default fits its schema") func fittingExamples() throws {
        for (name, schema) in OpenAPIDocument.schemas { try Self.expectGoodExample(schema, name) }
        for operation in OpenAPIDocument.operations {
            for parameter in operation.pathParameters + operation.parameters {
                try Self.expectGoodExample(parameter.schema, "\(operation.id) \(parameter.name)")
            }
            for answer in operation.answers {
                for header in answer.headers { try Self.expectGoodExample(header.schema, "\(operation.id) \(header.name)") }
            }
        }
    }

    private static func expectGoodExample(_ schema: JSONSchema, _ name: String) throws {
        #expect(SchemaCheck.faults(of: try schema.example.value, against: schema) == [], "the example of \(name)")
        for field in schema.fields { try expectGoodExample(field.schema, "\(name).\(field.name)") }
        guard let standard = schema.standard else { return }
        #expect(SchemaCheck.faults(of: try standard.value, against: schema) == [], "the default of \(name)")
    }
}

extension JSONSchema {
    fileprivate var fields: [Field] {
        if case .object(let fields, _) = kind { fields } else { [] }
    }

    /// This schema and those within it, wherever one has a name.
    fileprivate var everyNamed: [(String, JSONSchema)] {
        switch kind {
        case .reference(let name, let schema): [(name, schema)] + schema.everyNamed
        case .array(let element, _, _), .dictionary(let element): element.everyNamed
        case .object(let fields, _): fields.flatMap(\.schema.everyNamed)
        case .oneOf(let options): options.flatMap(\.everyNamed)
        default: []
        }
    }
}
