import StrictJSON

/// A dispatcher's report about its credentials: at its start, after each change, and every minute. A CloudEvents 1.0 event in
/// `push.outcomes`. The newest report of a dispatcher replaces those before it.
package struct CredentialReport: Equatable, Sendable {
    package static let currentVersion = 1
    package static let type = "push.dispatcher.credentials.v1"
    package static let contentType = "application/cloudevents+json"
    package static let routingKey = "dispatcher.credentials"

    /// One credential in one environment.
    package struct Credential: Equatable, Sendable {
        package enum Kind: String, Sendable, CaseIterable {
            case key, certificate
        }

        package var kind: Kind
        /// Apple's id of a key; the operator's name of a certificate.
        package var id: String
        package var environment: APNsEnvironment
        package var apps: [AppSlug]
        /// APNs' reason, verbatim, while APNs refuses the credential.
        package var refusal: String?

        package init(kind: Kind, id: String, environment: APNsEnvironment, apps: [AppSlug], refusal: String? = nil) {
            self.kind = kind
            self.id = id
            self.environment = environment
            self.apps = apps
            self.refusal = refusal
        }
    }

    package var id: PushID
    /// CloudEvents `source`: `/push/dispatcher/<instance>`.
    package var source: String
    /// UNIX milliseconds.
    package var time: Int64
    package var credentials: [Credential]

    package init(id: PushID, source: String, time: Int64, credentials: [Credential]) {
        self.id = id
        self.source = source
        self.time = time
        self.credentials = credentials
    }

    package func encoded() -> [UInt8] {
        var writer = JSONWriter()
        writer.cloudEvent(id: id, source: source, type: Self.type, time: time) { writer in
            writer.field("v", Self.currentVersion)
            writer.array("credentials") { writer in
                for credential in credentials { credential.write(to: &writer) }
            }
        }
        return writer.bytes
    }

    /// - Throws: ``MessageError``, for any bytes that are not a report of a version up to ``currentVersion``.
    package init(decoding bytes: [UInt8]) throws(MessageError) {
        let value: JSONValue
        do throws(JSONError) { value = try JSONValue.parse(bytes) } catch { throw MessageError(error) }
        let event = MessageFields(value)
        try MessageVersion.check(Int(clamping: try event["data"].integer("v")), atMost: Self.currentVersion)
        guard value["type"]?.stringValue == Self.type else { throw MessageError(.invalidField("type"), "expected \(Self.type)") }
        let (id, source, time) = (try event.id("id"), try event.string("source"), try event.moment("time"))
        guard let listed = value["data"]?["credentials"]?.arrayValue else {
            throw MessageError(.invalidField("credentials"), "expected an array")
        }
        let credentials = listed.compactMap { Credential($0) }
        guard credentials.count == listed.count else {
            throw MessageError(.invalidField("credentials"), "expected kind, id, environment and apps")
        }
        self.init(id: id, source: source, time: time, credentials: credentials)
    }
}

extension CredentialReport.Credential {
    fileprivate func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.field("kind", kind.rawValue)
            writer.field("id", id)
            writer.field("environment", environment.rawValue)
            writer.field("apps", apps.map(\.text))
            writer.field("refusal", refusal)
        }
    }

    fileprivate init?(_ value: JSONValue) {
        guard let kind = value["kind"]?.stringValue.flatMap(Kind.init(rawValue:)), let id = value["id"]?.stringValue,
            let environment = value["environment"]?.stringValue.flatMap(APNsEnvironment.init(rawValue:)),
            let names = value["apps"]?.arrayValue
        else { return nil }
        let apps = names.compactMap { $0.stringValue.flatMap { AppSlug($0) } }
        guard apps.count == names.count else { return nil }
        self.init(kind: kind, id: id, environment: environment, apps: apps, refusal: value["refusal"]?.stringValue)
    }
}

extension JSONWriter {
    /// One event in CloudEvents 1.0's structured mode (JSON event format, section 3).
    /// - Parameters:
    ///   - time: UNIX milliseconds.
    ///   - data: Writes the fields of `data`.
    mutating func cloudEvent(id: PushID, source: String, type: String, time: Int64, _ data: (inout JSONWriter) -> Void) {
        object { writer in
            writer.field("specversion", "1.0")
            writer.plainField("id", id.append)
            writer.field("source", source)
            writer.field("type", type)
            writer.plainField("time") { RFC3339.append(milliseconds: time, to: &$0) }
            writer.field("datacontenttype", "application/json")
            writer.object("data", data)
        }
    }
}
