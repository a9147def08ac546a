import HTTPTypes
import PushModel
package import StrictJSON
package import TokenServiceApps
import TokenServiceKit
package import TokenServiceRegistry

/// `POST /v1/apps/{app}/installations`: many registrations in one request, each with its own answer, in the request's order.
struct BulkRegistration: Sendable {
    static let maximumItems = 1000
    static let maximumBodyBytes = 4 << 20

    /// The items of a request: each is a registration, or the reason why it is none.
    struct Items: Sendable {
        enum Item: Sendable {
            case registration(Registration)
            case refused(id: PushID?, APIError)
        }

        var items: [Item]

        /// A fault of one item is that item's answer; only a fault of the list itself goes to `body.problems`.
        init?(_ body: inout JSONObjectReader, app: App) {
            let list = body.value("installations")
            body.finish()
            guard let list else { return nil }
            guard let elements = list.arrayValue, (1...BulkRegistration.maximumItems).contains(elements.count) else {
                body.problem("installations", "out_of_range", "must be an array of 1 to \(BulkRegistration.maximumItems) registrations")
                return nil
            }
            items = elements.enumerated().map { index, element in
                var item = JSONObjectReader(
                    element, at: "/installations/\(index)", problems: JSONProblems(maximum: JSONProblems.maximumOfItem))
                guard let registration = Registration(bulkItem: &item, app: app) else {
                    return .refused(id: PushID(stated: element), APIError.invalid(item.problems.list))
                }
                return .registration(registration)
            }
        }
    }

    enum Outcome: Sendable {
        case registered(InstallationRegistration.Result)
        case refused(id: PushID?, APIError)
    }

    let register: InstallationImport.Register
    let errors: InternalErrors

    func register(_ items: Items, app: App) async -> [Outcome] {
        let valid = items.items.compactMap { item in
            if case .registration(let registration) = item { registration } else { nil }
        }
        var results = await register(valid, app).makeIterator()
        return items.items.map { item in
            switch item {
            case .refused(let id, let error): .refused(id: id, error)
            case .registration(let registration):
                switch results.next() {
                case .success(let result): .registered(result)
                case .failure(let error): .refused(id: registration.installation, problem(error))
                case nil: .refused(id: registration.installation, problem(CorruptRow(table: "installations")))
                }
            }
        }
    }

    private func problem(_ error: any Error) -> APIError {
        errors.answer(to: error, "An item of a bulk registration failed")
    }
}

extension BulkRegistration {
    static let request = JSONSchema.request(
        "Registrations", [.required("installations", .array(Registration.bulkItem, minimum: 1, maximum: maximumItems))])

    static let response = ResponseSchema<[OfApp<Outcome>]>.object("RegistrationResults", [.required("results", .array(result)) { $0 }])

    private static let result = ResponseSchema<OfApp<Outcome>>(
        schema: .named("RegistrationResult", .oneOf(registered.schema, refused.schema))
    ) { outcome, writer in
        switch outcome.value {
        case .registered(let result): registered.write(OfApp(app: outcome.app, value: result), &writer)
        case .refused(let id, let error): refused.write((id, error), &writer)
        }
    }

    private static let registered = ResponseSchema<OfApp<InstallationRegistration.Result>>.object(
        nil,
        [
            .required("id", .uuid) { $0.value.record.id },
            .required("status", .integer(.numbers([200, 201])), "As if it had been registered alone.") { $0.value.isNew ? 201 : 200 },
            .required("record", InstallationRecord.registeredItem, "With the tokens that the item names.") { $0 },
        ])

    private static let refused = ResponseSchema<(id: PushID?, error: APIError)>.object(
        nil,
        [
            .nullable("id", .uuid, "Null where the item names none.") { $0.id },
            .required("status", .integer(.integer(400...599))) { $0.error.status.code },
            .required("error", APIError.response) { $0.error },
        ])
}

extension Registration {
    /// Reads a registration that names its installation itself, as `id`, and may state the backend's tags.
    /// - Returns: nil where something is missing or wrong; the reader's problems say what.
    package init?(bulkItem object: inout JSONObjectReader, app: App) {
        let id = object.string("id", maximumBytes: 36).flatMap { text in
            let id = PushID(text)
            if id == nil { object.problem("id", "invalid_id", "must be a UUID") }
            return id
        }
        let tags = object.tags()
        // Reads on without an id, so that the client gets all faults at once.
        self.init(
            fieldsOf: &object, installation: id ?? PushID(high: 0, low: 0), app: app, maximumTokens: RegisteredToken.maximumExported)
        self.tags = tags
        isListed = true
    }
}

extension PushID {
    /// The id that an object states, where it is one.
    init?(stated object: JSONValue) {
        guard let id = object["id"]?.stringValue.flatMap({ PushID($0) }) else { return nil }
        self = id
    }
}
