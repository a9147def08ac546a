import PushModel

@testable import TokenServiceEvents
@testable import TokenServiceKit
@testable import TokenServiceSending

/// Small texts. What is read is written as it was, or as one form that is read as the same.
enum FuzzText {
    static func tags(_ bytes: [UInt8]) {
        do throws(TagExpression.Fault) {
            expectWritable(try TagExpression(String(decoding: bytes, as: UTF8.self)))
        } catch {
            precondition(error.position >= 1 && error.position <= bytes.count + 1, "a fault has its place in the text")
        }
    }

    static func expectWritable(_ expression: TagExpression) {
        do throws(TagExpression.Fault) {
            let again = try TagExpression(expression.description)
            precondition(again == expression, "its text is another expression")
        } catch {
            preconditionFailure("its text is no expression: \(error)")
        }
    }

    static func webhook(_ bytes: [UInt8]) {
        if let url = WebhookURL(String(decoding: bytes, as: UTF8.self), allowsHTTP: false) {
            precondition(url.text.hasPrefix("https://\(url.host)"), "what is connected to is what was checked")
            precondition(WebhookURL(url.text, allowsHTTP: false) == url, "its text leads elsewhere")
            precondition(!url.host.contains { "@:/?#[]\\%".contains($0) } && (1...65_535).contains(url.port))
        }
        let rules = AddressRules(allowsLoopback: false)
        for count in [4, 16] where bytes.count >= count {
            let address = Array(bytes.prefix(count))
            guard rules.allows(address) else { continue }
            // Expressed differently than the rules are: by what is certainly inside.
            if count == 4 { precondition(![0, 10, 127].contains(address[0]) && address[0] < 224) }
            if count == 16 { precondition(address[0] & 0xe0 == 0x20) }
        }
    }

    static func run(_ bytes: [UInt8]) {
        let text = String(decoding: bytes, as: UTF8.self)
        if let key = APIKeyText(text) { precondition(key.text == text, "a key is one text") }
        if let slug = AppSlug(text) { precondition(slug.text == text) }
        if let id = PushID(text) { precondition(PushID(id.description) == id && id.description == text.lowercased()) }
        if let token = DeviceToken(hex: text) { precondition(DeviceToken(bytes: token.bytes) == token) }
        if let locale = LocaleTag(text) { precondition(LocaleTag(locale.description) == locale) }
        if let moment = RFC3339.milliseconds(text), (0...4_000_000_000_000).contains(moment) {
            precondition(RFC3339.milliseconds(RFC3339.text(milliseconds: moment)) == moment)
        }
        if let time = LocalTime(text) { precondition(LocalTime(time.description) == time) }
        if case .listed(let tags) = EntityTags(text) { precondition(!tags.contains { $0.hasPrefix(" ") || $0.hasSuffix(" ") }) }
        do throws(PageCursor.Fault) {
            let place = try PageCursor.decode(text, list: [])
            precondition(PageCursor.encode(place, list: []) == text, "a cursor is one text")
        } catch {
            precondition(error == .unreadable || error == .ofAnotherList)
        }
        _ = WebhookFilter(text)
        for parameter in FormQuery(text).parameters {
            precondition((parameter.name?.utf8.count ?? 0) + (parameter.value?.utf8.count ?? 0) <= text.utf8.count)
        }
    }
}
