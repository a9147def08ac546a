import PushModel
import StrictJSON
import TokenServiceRegistry

/// One APNs body of a request, rendered or cut out, whose push type has yet to be found.
struct ContentDraft {
    /// Lower case; nil for the default.
    let locale: String?
    let place: ContentPlace
    let bytes: [UInt8]
    let value: JSONValue
    /// The sender stated no `timestamp`, so it is the platform's (``RenderedContent/stamped(with:)``).
    var isStamped = false

    /// - Parameters:
    ///   - maximum: The most bytes that APNs takes.
    ///   - deviceReceipts: See ``JobTemplate/payload(ofJob:)``.
    func check(as type: PushType, of maximum: Int, deviceReceipts: Bool, _ problems: JSONProblems) {
        let rules = PayloadRules(type: type, maximumBytes: maximum, place: place, problems: problems)
        rules.check(value, bytes: bytes.count, deviceReceipts: deviceReceipts)
    }

    var aps: JSONValue? { value["aps"] }

    /// What it does to a Live Activity, if anything.
    var event: ActivityChange.Event? { aps?["event"]?.stringValue.flatMap { ActivityChange.Event(rawValue: $0) } }

    /// The attributes type of the Live Activity that it starts, if it starts one.
    var startedType: String? {
        event == .start ? aps?["attributes-type"]?.stringValue.flatMap { Purpose.isName($0) ? $0 : nil } : nil
    }
}

extension RenderedContent {
    /// - Returns: nil where there is no default.
    init?(_ drafts: [ContentDraft]) {
        guard let standard = drafts.first(where: { $0.locale == nil }) else { return nil }
        let variants = drafts.compactMap { draft in draft.locale.map { Variant(locale: $0, payload: draft.bytes) } }
        self.init(payload: standard.bytes, variants: variants.sorted { $0.locale < $1.locale })
    }

    static let maximumVariants = 100
}

extension JSONObjectReader {
    /// The default first, then the locales'. A body that could not be read has left a problem and is not among them.
    /// - Parameter sendingTime: See ``ContentRenderer/sendingTime``.
    mutating func drafts(source: [UInt8], sendingTime: Int64?) -> [ContentDraft] {
        let standard = draft(locale: nil, source: source, sendingTime: sendingTime)
        return [standard].compactMap { $0 } + variants(source: source, sendingTime: sendingTime)
    }

    private mutating func variants(source: [UInt8], sendingTime: Int64?) -> [ContentDraft] {
        guard let locales = optionalObject("locales") else { return [] }
        let members = locales.value.objectValue ?? []
        guard members.count <= RenderedContent.maximumVariants else {
            problem("locales", "too_many", "at most \(RenderedContent.maximumVariants) locales")
            return []
        }
        var seen: Set<String> = []
        return members.compactMap { key, value in
            guard let tag = LocaleTag(key) else {
                locales.problem(key, "invalid_locale", "a language tag such as de or zh-Hant")
                return nil
            }
            guard seen.insert(tag.text).inserted else {
                locales.problem(key, "duplicate", "another key is the same locale")
                return nil
            }
            var variant = locales.reader(of: key, value)
            let draft = variant.draft(locale: tag.text, source: source, sendingTime: sendingTime)
            variant.finish()
            return draft
        }
    }

    /// Exactly one of `payload`, which is taken verbatim, and `content`, which is rendered.
    private mutating func draft(locale: String?, source: [UInt8], sendingTime: Int64?) -> ContentDraft? {
        let payload = optionalValue("payload")
        let content = optionalValue("content")
        guard (payload == nil) != (content == nil) else {
            if payload == nil, value.objectValue != nil {
                problem("content", "missing", "required: content, or payload with the whole APNs body")
            } else if payload != nil {
                problem("content", "conflict", "only one of content and payload")
            }
            return nil
        }
        if let payload { return draft(payload, locale: locale, source: source) }
        guard let object = object("content") else { return nil }
        return ContentRenderer(source: source, sendingTime: sendingTime).draft(of: object, locale: locale)
    }

    private func draft(_ payload: JSONValue, locale: String?, source: [UInt8]) -> ContentDraft? {
        guard payload.objectValue != nil else {
            problem("payload", "wrong_type", "expected an object, found \(payload.typeName)")
            return nil
        }
        if let aps = payload["aps"], aps.objectValue == nil {
            problem("payload", step: "/aps", "wrong_type", "expected an object, found \(aps.typeName)")
            return nil
        }
        let place = ContentPlace(form: .payload, pointer: pointer + "/payload")
        return ContentDraft(locale: locale, place: place, bytes: Array(source[payload.range]), value: payload)
    }

    private func reader(of key: String, _ value: JSONValue) -> JSONObjectReader {
        JSONObjectReader(value, at: pointer + pointerStep(key), problems: problems)
    }
}
