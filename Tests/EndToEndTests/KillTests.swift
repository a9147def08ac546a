import Glibc
import StrictJSON
import SystemIO
import TestSupport
import Testing

@Suite("Accepted notifications survive a kill", .timeLimit(.minutes(5)))
struct KillTests {
    /// Promises 1 and 2 (docs/promises.md): the requests have left, no answer came, and the dispatcher is dead.
    @Test("kill -9 of a dispatcher in mid-send loses nothing") func dispatcherInMidSend() async throws {
        try await withPlatform { platform in
            try await platform.startSimulator()
            let tokenService = try await platform.startTokenService()
            let dispatcher = try await platform.startDispatcher("first")
            try await Client.with(platform, tokenService) { client in
                let devices = try await client.registerDevices(20, user: "ada")
                // The first push opens the connection for many at once (docs/apns.md, Streams).
                _ = try await client.completed(try await client.send("warm-up", to: "ada"))
                for device in devices { try await client.script(device) { $0.object { $0.field("action", "silence") } } }
                let id = try await client.send("hold on", to: "ada")
                _ = try await eventually("all pushes have left and wait for their answers") {
                    try await client.arrivals().count == 40 ? true : nil
                }
                await dispatcher.process.killAndWait()

                try await platform.startDispatcher("second")
                let status = try await client.completed(id)
                #expect(status.count("accepted") == 20)
                let sent = Dictionary(grouping: try await client.arrivals().dropFirst(20), by: \.token)
                #expect(Set(sent.keys) == Set(devices.map(\.token)))
                #expect(
                    sent.values.allSatisfy { $0.count == 2 && Set($0.map(\.apnsID)).count == 1 }, "a second copy has the first one's id")
            }
        }
    }

    /// Promise 1 (docs/promises.md): the row is committed, the answer is sent, the broker does not have the job, and the token service is
    /// dead.
    @Test("kill -9 of the token service between commit and publish loses nothing") func tokenServiceBeforePublish() async throws {
        try await withPlatform { platform in
            try await platform.startSimulator()
            let (host, port) = try platform.brokerAddress
            let link = try FaultProxy(toHost: host, port: port)
            defer { link.stop() }
            let first = try await platform.startTokenService(["RABBITMQ_URL": try platform.brokerURI(through: link.port)])
            try await Client.with(platform, first) { client in
                let devices = try await client.registerDevices(3, user: "ada")
                link.set(.blackHole)
                let id = try await client.send("do not forget me", to: "ada")
                await first.process.killAndWait()

                let second = try await platform.startTokenService()
                try await platform.startDispatcher()
                let status = try await client.talking(to: second).completed(id)
                #expect(status.count("accepted") == 3)
                #expect(try await client.arrivals().map(\.token).sorted() == devices.map(\.token).sorted())
            }
        }
    }

    /// Promise 11 (docs/promises.md).
    @Test("SIGTERM under load sends nothing twice and loses nothing") func gracefulStop() async throws {
        try await withPlatform { platform in
            try await platform.startSimulator()
            let tokenService = try await platform.startTokenService()
            let leaving = try await platform.startDispatcher("leaving")
            try await platform.startDispatcher("staying")
            try await Client.with(platform, tokenService) { client in
                let devices = try await client.registerDevices(5, user: "ada")
                var ids: [String] = []
                for number in 0..<200 {
                    ids.append(try await client.send("number \(number)", to: "ada"))
                    if number == 100 { leaving.process.send(SIGTERM) }
                }
                #expect(await leaving.process.waitForEnd() == .exited(0), "\(leaving.process.log)")
                for id in ids { #expect(try await client.completed(id).count("accepted") == 5) }
                let arrivals = try await client.arrivals()
                #expect(arrivals.count == 1000)
                #expect(Set(arrivals.map(\.apnsID)).count == 1000, "a delivery was handed to APNs twice")
                #expect(Set(arrivals.map(\.token)) == Set(devices.map(\.token)))
            }
        }
    }
}
