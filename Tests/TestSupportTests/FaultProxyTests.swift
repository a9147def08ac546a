import SystemIO
import TestSupport
import Testing

@Suite("The fault proxy is a normal link until a test breaks it", .timeLimit(.minutes(5)))
struct FaultProxyTests {
    @Test("Bytes and ends of stream go through in both directions") func bothDirections() async throws {
        try await withLink { link in
            let (client, server) = try link.connect()
            try client.send(numbered(1_000))
            try client.socket.shutdownWriting()
            let request = try server.receiveAll()
            #expect(request == (numbered(1_000), .endOfStream))
            // The connection is half-closed, and the answer still comes.
            try server.send(numbered(200_000))
            server.socket.close()
            #expect(try client.receiveAll() == (numbered(200_000), .endOfStream))
            #expect(link.proxy.bytesFromClients == 1_000 && link.proxy.bytesFromServer == 200_000)
        }
    }

    @Test("The proxy passes a reset on as a reset") func passesReset() async throws {
        try await withLink { link in
            let (client, server) = try link.connect()
            try client.socket.resetOnClose()
            client.socket.close()
            #expect(try server.receiveAll() == ([], .reset))
        }
    }

    @Test("The proxy resets the client of a missing server") func missingServer() async throws {
        try await withLink { link in
            link.listener.close()
            let dialled = try link.dialInVain()
            #expect(dialled == ([], .reset))
        }
    }

    @Test("Paused bytes wait and go on") func pausedBytes() async throws {
        try await withLink { link in
            let (client, server) = try link.connect()
            try client.send([1])
            #expect(try server.receive(1) == [1])
            link.proxy.set(.paused)
            try client.send(numbered(500))
            link.proxy.set(.forwarding)
            #expect(try server.receive(500) == numbered(500))
        }
    }

    @Test("The proxy never delivers bytes that vanished") func vanishedBytes() async throws {
        try await withLink { link in
            let (client, server) = try link.connect()
            try client.send([1])
            #expect(try server.receive(1) == [1])
            link.proxy.set(.blackHole)
            let newcomer = try link.dial()
            for peer in [client, newcomer] { try peer.send(numbered(100)) }
            try eventually { link.proxy.bytesFromClients == 201 }
            link.proxy.set(.forwarding)
            #expect(try server.receiveAll() == ([], .reset))
            for peer in [client, newcomer] { #expect(try peer.receiveAll() == ([], .reset)) }
        }
    }

    @Test("In a black hole neither side learns that the other left") func silentLeave() async throws {
        try await withLink { link in
            let (client, server) = try link.connect()
            try client.send([1])
            #expect(try server.receive(1) == [1])
            link.proxy.set(.blackHole)
            try client.socket.resetOnClose()
            client.socket.close()
            // The server sends this after the client's end, and the proxy drops it.
            try server.send([1])
            try eventually { link.proxy.bytesFromServer == 1 }
            #expect(link.proxy.connections == 1)
            link.proxy.set(.forwarding)
            #expect(try server.receiveAll() == ([], .reset))
        }
    }

    @Test("Only one direction may be dead") func oneDirection() async throws {
        try await withLink { link in
            let (client, server) = try link.connect()
            link.proxy.set(.deafClient)
            try client.send([1])
            #expect(try server.receive(1) == [1])
            #expect(link.proxy.losses.waiting.isEmpty)
            try server.send([2])
            try eventually { link.proxy.losses.waiting == [1] }
            link.proxy.set(.deafServer)
            #expect(try client.receiveAll() == ([], .reset))
            link.proxy.set(.forwarding)
            let (second, other) = try link.connect()
            link.proxy.set(.deafServer)
            try other.send([3])
            #expect(try second.receive(1) == [3])
        }
    }

    @Test("The proxy may break only new connections") func onlyNew() async throws {
        try await withLink { link in
            let (client, server) = try link.connect()
            link.proxy.set(.resetting, for: .new)
            #expect(try link.dialInVain() == ([], .reset))
            link.proxy.set(.refusing, for: .new)
            let refused = try link.dialInVain()
            #expect(refused.bytes.isEmpty)
            try client.send([7])
            #expect(try server.receive(1) == [7])
        }
    }

    /// Also if the proxy is just accepting the client before.
    @Test("Conditions apply to a client that connects after they were set") func conditionsFirst() async throws {
        try await withLink { link in
            for _ in 0..<300 {
                link.proxy.set(.forwarding, for: .new)
                let before = try link.dial()
                link.proxy.set(.resetting, for: .new)
                #expect(try link.dialInVain() == ([], .reset))
                before.socket.close()
            }
        }
    }

    @Test(
        "The connection ends after exactly the given number of bytes",
        arguments: [0, 1, 7, 5_000], [LinkConditions.Ending.reset, .close, .silence])
    func endsAfterBytes(_ bytes: Int, _ ending: LinkConditions.Ending) async throws {
        try await withLink { link in
            let (client, server) = try link.connect()
            try server.send([1])
            #expect(try client.receive(1) == [1])
            link.proxy.set(LinkConditions(toServer: .ending(after: bytes, ending)))
            if bytes > 0 || ending == .silence { try client.send(numbered(6_000)) }
            if bytes > 0 { #expect(try server.receive(bytes) == numbered(bytes)) }
            if ending == .silence {
                try eventually { link.proxy.bytesFromClients == 6_000 }
                link.proxy.set(.forwarding)
            }
            let rest = try server.receiveAll()
            #expect(rest.bytes.isEmpty)
            // If the client is still sending, it sees a close as a reset.
            #expect(rest.ending == (ending == .close ? .endOfStream : .reset))
            let answer = try client.receiveAll()
            #expect(answer.bytes.isEmpty)
        }
    }

    @Test("One side of a half-open connection is gone, and the other does not know", arguments: [FaultProxy.Side.client, .server])
    func halfOpen(_ lost: FaultProxy.Side) async throws {
        try await withLink { link in
            let (client, server) = try link.connect()
            try client.send([1])
            #expect(try server.receive(1) == [1])
            link.proxy.lose(lost)
            let (gone, left) = lost == .client ? (client, server) : (server, client)
            #expect(try gone.receiveAll() == ([], .reset))
            try left.send(numbered(50))
            try eventually { link.proxy.bytesFromClients + link.proxy.bytesFromServer == 51 }
            // When the link works again, the lost host answers with a reset.
            link.proxy.set(.forwarding)
            #expect(try left.receiveAll() == ([], .reset))
        }
    }

    @Test("New connections go to the redirected port") func redirected() async throws {
        try await withLink { link in
            let other = try TCPListener(host: "127.0.0.1", port: 0)
            let (client, server) = try link.connect()
            try link.proxy.redirect(port: other.port)
            link.listener.close()
            let second = try link.dial()
            let poller = try Poller()
            try poller.add(other.descriptor, key: 0, interest: .read)
            _ = try poller.wait(timeout: nil)
            let there = Peer(try #require(try other.accept()))
            try second.send([2])
            #expect(try there.receive(1) == [2])
            try client.send([1])
            #expect(try server.receive(1) == [1])
        }
    }

    @Test("One thread serves hundreds of connections") func manyConnections() async throws {
        try await withLink { link in
            let pairs = try (0..<200).map { _ in try link.connect() }
            for (number, pair) in pairs.enumerated() { try pair.client.send([UInt8(truncatingIfNeeded: number)]) }
            for (number, pair) in pairs.enumerated() { #expect(try pair.server.receive(1) == [UInt8(truncatingIfNeeded: number)]) }
            link.proxy.cut()
            for pair in pairs { #expect(try pair.client.receiveAll() == ([], .reset)) }
            try eventually { link.proxy.connections == 0 }
        }
    }

    @Test("One byte of each connection arrives changed") func garbledByte() async throws {
        try await withLink { link in
            var expected = numbered(3_000)
            expected[1_234] ^= UInt8(ascii: "S") ^ UInt8(ascii: "N")
            let (old, _) = try link.connect()
            link.proxy.set(LinkConditions(toServer: .garbled(after: 1_234)), for: .new)
            let (client, server) = try link.connect()
            // The pieces may end at any byte.
            for piece in [numbered(3_000)[..<700], numbered(3_000)[700..<1_235], numbered(3_000)[1_235...]] {
                try client.send(Array(piece))
            }
            #expect(try server.receive(3_000) == expected)
            try server.send(numbered(2_000))
            #expect(try client.receive(2_000) == numbered(2_000))
            try client.send(numbered(2_000))
            #expect(try server.receive(2_000) == numbered(2_000))
            old.socket.close()
        }
    }

    @Test("A watching proxy counts connections that send bytes other than TLS") func countsCleartext() async throws {
        let hello: [UInt8] = [22, 3, 1, 0, 3, 1, 2, 3, 23, 3, 3, 0, 1, 9]
        let request: [UInt8] = [0, 0, 0, 8, 4, 210, 22, 47]
        let cases: [(FaultProxy.Opening, [UInt8], Int)] = [
            (.record, hello, 0), (.postgres, request + hello, 0), (.postgres, Array(request.prefix(5)), 0), (.record, request, 1),
            (.record, Array("AMQP".utf8), 1), (.record, hello + [65], 1), (.postgres, request + [0, 0, 0, 9, 0, 3, 0, 0], 1),
            (.postgres, [0, 0, 0, 16, 4, 210, 22, 46], 1), (.record, [22, 3, 3, 255, 255], 1),
        ]
        for (opening, bytes, count) in cases {
            try await withLink(opening: opening) { link in
                let (client, server) = try link.connect()
                // One byte at a time, so that a piece ends at every position.
                for byte in bytes {
                    try client.send([byte])
                    _ = try server.receive(1)
                }
                #expect(link.proxy.connectionsInClear == count, "\(bytes)")
            }
        }
    }
}
