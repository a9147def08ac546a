import Foundation
import RabbitMQ
import Testing

@Suite("Where the broker is")
struct ConfigurationTests {
    @Test(
        "A configuration is read from an AMQP URI",
        arguments: [
            ("amqp://u:p@broker.example:5673/shop", "broker.example", 5673, "shop", false),
            ("amqp://u:p@broker.example", "broker.example", 5672, "/", false),
            ("amqp://u:p@broker.example/", "broker.example", 5672, "/", false),
            ("amqp://u:p@[::1]:1/%2f", "::1", 1, "/", false),
        ])
    func fromURI(uri: String, host: String, port: Int, virtualHost: String, usesTLS: Bool) throws {
        let configuration = try RabbitMQConfiguration(uri: uri)
        #expect(configuration.nodes == [.init(host: host, port: port)])
        #expect(configuration.virtualHost == virtualHost)
        #expect(configuration.usesTLS == usesTLS)
    }

    @Test("An AMQP URI may name several nodes") func severalNodes() throws {
        let configuration = try RabbitMQConfiguration(uri: "amqp://u:p%2Cq@a.example:5673,b.example,[::1]:1/shop")
        #expect(
            configuration.nodes == [
                .init(host: "a.example", port: 5673), .init(host: "b.example", port: 5672), .init(host: "::1", port: 1),
            ])
        #expect(configuration.virtualHost == "shop")
        #expect("\(configuration)" == "amqp://a.example:5673,b.example:5672,[::1]:1/shop")
    }

    @Test(
        "A configuration refuses an empty or malformed node",
        arguments: ["amqp://u:p@a,,b/", "amqp://u:p@a,/", "amqp://u:p@,a/", "amqp://u:p@a:x,b/", "amqp://u:p@a,b:0/"])
    func malformedNode(uri: String) {
        #expect { try RabbitMQConfiguration(uri: uri) } throws: { ($0 as? RabbitMQError)?.code == .configuration }
    }

    @Test(
        "A configuration refuses a text that is not an AMQP URI",
        arguments: ["", "http://broker", "amqp://u:p@broker:0/", "amqp://u:p@broker:99999/", "amqp://u:p@bro ker:x/"])
    func notAURI(uri: String) {
        #expect { try RabbitMQConfiguration(uri: uri) } throws: { ($0 as? RabbitMQError)?.code == .configuration }
    }

    @Test("A configuration with TLS needs an authority file") func requiresAuthority() throws {
        #expect { try RabbitMQConfiguration(uri: "amqps://u:p@broker/") } throws: { ($0 as? RabbitMQError)?.code == .configuration }
        let configuration = try RabbitMQConfiguration(uri: "amqps://u:p@broker/", authorityFile: "/etc/ca.pem")
        #expect(configuration.usesTLS)
        #expect(configuration.nodes.map(\.port) == [5671])
    }

    @Test("A configuration never shows its password") func hiddenPassword() throws {
        let configuration = try RabbitMQConfiguration(uri: "amqp://u:s3cret-word@broker/")
        var dumped = ""
        dump(configuration, to: &dumped)
        for text in ["\(configuration)", String(reflecting: configuration), dumped] {
            #expect(!text.contains("s3cret-word"))
            #expect(text.contains("broker"))
        }
    }

    @Test("A connection reports an unreadable password file") func unreadableFile() throws {
        let configuration = try RabbitMQConfiguration(uri: testURI(), passwordFile: "/nowhere/password")
        #expect { try RabbitMQConnection.open(configuration) } throws: { ($0 as? RabbitMQError)?.code == .configuration }
    }

    @Test("A connection takes the password from the first line of a file") func firstLine() throws {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("password-\(UUID().uuidString)")
        try Data("guest\nsecond line".utf8).write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        let uri = try testURI().replacing("guest:guest", with: "guest:wrong")
        let connection = try RabbitMQConnection.open(RabbitMQConfiguration(uri: uri, passwordFile: file.path))
        connection.close()
    }
}
