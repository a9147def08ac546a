import PushModel
import StrictJSON
import Testing
import TokenServiceEvents

@Suite("What webhooks may be")
struct WebhookRulesTests {
    @Test(
        "The rules refuse an IPv4 address of a special kind",
        arguments: [
            "0.0.0.0", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.100.100.200", "100.127.255.255", "127.0.0.1", "127.255.255.254",
            "168.63.129.16", "169.254.0.1", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.0.192", "192.0.2.1",
            "192.88.99.1", "192.168.0.1", "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255",
            "240.0.0.1", "255.255.255.255",
        ])
    func specialIPv4(_ text: String) throws {
        let address = try #require(Self.ipv4(text))
        #expect(!AddressRules(allowsLoopback: false).allows(address))
        #expect(AddressRules(allowsLoopback: true).allows(address) == text.hasPrefix("127."))
        // Inside IPv6, whichever way it is written there.
        let zeroes = [UInt8](repeating: 0, count: 10)
        for wrapped in [
            zeroes + [0xff, 0xff] + address, zeroes + [0, 0] + address, [0, 0x64, 0xff, 0x9b] + zeroes.prefix(8) + address,
            [0x20, 0x02] + address + zeroes, [0x20, 0x01] + zeroes + address,
        ] {
            #expect(wrapped.count == 16)
            #expect(!AddressRules(allowsLoopback: true).allows(wrapped), "\(wrapped)")
        }
    }

    @Test(
        "The rules allow any other IPv4 address",
        arguments: [
            "1.1.1.1", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.0.0.1", "128.0.0.1", "169.253.0.1", "169.255.0.1",
            "172.15.255.255", "172.32.0.0", "192.0.1.1", "192.167.0.1", "192.169.0.1", "198.17.0.1", "198.20.0.1", "223.255.255.255",
            "168.63.129.17",
        ])
    func ordinaryIPv4(_ text: String) throws {
        #expect(AddressRules(allowsLoopback: false).allows(try #require(Self.ipv4(text))))
    }

    @Test("The rules allow only IPv6 addresses of global unicast") func globalIPv6() {
        let rules = AddressRules(allowsLoopback: false)
        func address(_ head: UInt8...) -> [UInt8] { head + [UInt8](repeating: 0, count: 15 - head.count) + [1] }
        for refused in [
            address(), address(0xfe, 0x80), address(0xfe, 0xbf), address(0xfc), address(0xfd, 0, 0x0e, 0xc2), address(0xff, 0x02),
            address(0x20, 0x01, 0x0d, 0xb8), address(0x20, 0x01, 0, 0), address(0x20, 0x02, 10), address(0x3f, 0xff, 0x0f),
            address(0x40), address(0x1f), address(0, 0x64, 0xff, 0x9b),
        ] { #expect(!rules.allows(refused), "\(refused)") }
        #expect(!rules.allows([UInt8](repeating: 0, count: 16)))
        for allowed in [address(0x2a, 0), address(0x20, 0x01, 0x48, 0x60), address(0x26, 0x06), address(0x3f, 0xfe)] {
            #expect(rules.allows(allowed), "\(allowed)")
        }
        #expect(AddressRules(allowsLoopback: true).allows(address()))
        #expect(!rules.allows([]) && !rules.allows([8, 8, 8]))
    }

    @Test(
        "The service puts a URL together from its parts",
        arguments: [
            ("https://hooks.example.com", "https://hooks.example.com/", 443),
            ("HTTPS://Hooks.Example.COM:8443/a/b?c=d%20e", "https://hooks.example.com:8443/a/b?c=d%20e", 8443),
            ("https://1.1.1.1/x", "https://1.1.1.1/x", 443), ("https://xn--exmple-cua.com/", "https://xn--exmple-cua.com/", 443),
            ("https://XN--E1AFMKFD.xn--p1ai/a", "https://xn--e1afmkfd.xn--p1ai/a", 443),
        ])
    func urlParts(_ given: String, _ text: String, _ port: Int) throws {
        let url = try #require(WebhookURL(given, allowsHTTP: false))
        #expect(url.text == text)
        #expect(url.port == port)
        #expect(WebhookURL(url.text, allowsHTTP: false) == url)
    }

    @Test(
        "Anything else is no URL of a webhook",
        arguments: [
            "http://hooks.example.com/", "ftp://hooks.example.com/", "hooks.example.com", "https://", "https:///x",
            "https://user@example.com/",
            "https://user:pass@example.com/", "https://example.com/#part", "https://[::1]/", "https://[::ffff:10.0.0.1]/",
            "https://ex ample.com/",
            "https://example.com\\@10.0.0.1/", "https://exämple.com/", "https://example.com:0/", "https://example.com:65536/",
            "https://example.com:18446744073709552059/", "https://ex%61mple.com/",
            "https://a_b.com/",
            "https://example.com/\r\nx: y", "file:///etc/passwd",
        ])
    func invalidURLs(_ text: String) {
        #expect(WebhookURL(text, allowsHTTP: false) == nil)
    }

    @Test("A filter admits one event, one kind or all") func eventFilters() {
        #expect(WebhookFilter("notification.completed")?.admits("notification.completed") == true)
        #expect(WebhookFilter("notification.completed")?.admits("notification.accepted") == false)
        #expect(WebhookFilter("token.*")?.admits("token.retired") == true)
        #expect(WebhookFilter("token.*")?.admits("tokens.retired") == false)
        #expect(WebhookFilter("*")?.admits("delivery.accepted") == true)
        for text in ["", "notification", "notification.", "notification.done", "*.*", "**", "Token.*", "token*", ".*"] {
            #expect(WebhookFilter(text) == nil, "\(text)")
        }
        #expect(Set(EventTopic.all).count == EventTopic.all.count)
        for topic in EventTopic.all { #expect(topic.split(separator: ".").count == 2, "\(topic)") }
    }

    /// The example that the reference libraries of Standard Webhooks are tested with.
    @Test("The service signs a message as Standard Webhooks says") func signedMessage() {
        let secret = WebhookSecret(
            bytes: [
                0x31, 0xf2, 0x90, 0xf6, 0xbf, 0x06, 0x29, 0x8a, 0xab, 0x4f, 0x08, 0xd4, 0x3c, 0x3f, 0x08, 0x2c, 0xf6, 0x48, 0xa3, 0x62,
                0xda, 0x2d, 0xa4, 0xb0,
            ])
        #expect(secret.text == "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
        let signature = WebhookSecret.signature(
            of: Array(#"{"test": 2432232314}"#.utf8), id: "msg_p5jXN8AQM9LWM0D4loKWxJek", timestamp: 1_614_265_330,
            secrets: [secret, secret])
        let one = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
        #expect(signature == "\(one) \(one)")
    }

    @Test("The service splits an event with many deliveries into parts") func eventParts() throws {
        let deliveries = (0..<250).map { number in
            OutcomeEvent.Delivery(
                id: PushID(high: 7, low: 0x8000_0000_0000_0000 | UInt64(number)), notification: .random(), installation: .random(),
                attempt: 1)
        }
        let event = OutcomeEvent(
            id: .random(), source: "/push/dispatcher/a", time: 0, app: try #require(AppSlug("shop")), outcome: .accepted, isFinal: true,
            deliveries: deliveries)
        let parts = event.parts(of: 100)
        #expect(parts.map(\.deliveries.count) == [100, 100, 50])
        #expect(parts.flatMap(\.deliveries) == deliveries)
        #expect(Set(parts.map(\.id)).count == 3)
        #expect(event.parts(of: 100) == parts)
        #expect(event.parts(of: 250) == [event])
    }

    private static func ipv4(_ text: String) -> [UInt8]? {
        let parts = text.split(separator: ".").compactMap { UInt8($0) }
        return parts.count == 4 ? parts : nil
    }
}
