import Foundation
import RabbitMQ
import Testing

@Suite("Where the broker is")
struct ConfigurationTests {
    @Test(arguments: [
        ("amqp://u:p@broker.example:5673/shop", "broker.example", 5673, "shop", false),
        ("amqp://u:p@broker.example", "broker.example", 5672, "/", false),
        ("amqp://u:p@broker.example/", "broker.example", 5672, "/", false),
        ("amqp://u:p@[::1]:1/%2f", "::1", 1, "/", false),
    ])
    func isReadFromAURI(uri: String, host: String, port: Int, virtualHost: String, usesTLS: Bool) throws {
        let configuration = try RabbitMQConfiguration(uri: uri)
        #expect(configuration.host == host)
        #expect(configuration.port == port)
        #expect(configuration.virtualHost == virtualHost)
        #expect(configuration.usesTLS == usesTLS)
    }

    @Test(arguments: ["", "http://broker", "amqp://u:p@broker:0/", "amqp://u:p@broker:99999/", "amqp://u:p@bro ker:x/"])
    func refusesWhatIsNotAnAMQPURI(uri: String) {
        #expect { try RabbitMQConfiguration(uri: uri) } throws: { ($0 as? RabbitMQError)?.code == .configuration }
    }

    @Test func demandsAnAuthorityForTLS() throws {
        #expect { try RabbitMQConfiguration(uri: "amqps://u:p@broker/") } throws: { ($0 as? RabbitMQError)?.code == .configuration }
        let configuration = try RabbitMQConfiguration(uri: "amqps://u:p@broker/", authorityFile: "/etc/ca.pem")
        #expect(configuration.usesTLS)
        #expect(configuration.port == 5671)
    }

    @Test func neverShowsThePassword() throws {
        let configuration = try RabbitMQConfiguration(uri: "amqp://u:s3cret-word@broker/")
        var dumped = ""
        dump(configuration, to: &dumped)
        for text in ["\(configuration)", String(reflecting: configuration), dumped] {
            #expect(!text.contains("s3cret-word"))
            #expect(text.contains("broker"))
        }
    }

    @Test func namesAnUnreadablePasswordFileWhenItConnects() throws {
        let configuration = try RabbitMQConfiguration(uri: testURI(), passwordFile: "/nowhere/password")
        #expect { try RabbitMQConnection.open(configuration) } throws: { ($0 as? RabbitMQError)?.code == .configuration }
    }

    @Test func takesThePasswordFromTheFirstLineOfAFile() throws {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("password-\(UUID().uuidString)")
        try Data("guest\nsecond line".utf8).write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        let uri = try testURI().replacing("guest:guest", with: "guest:wrong")
        let connection = try RabbitMQConnection.open(RabbitMQConfiguration(uri: uri, passwordFile: file.path))
        connection.close()
    }
}
