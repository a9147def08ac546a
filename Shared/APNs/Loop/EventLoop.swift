import Logging
import SystemIO

/// One thread's event loop. It owns its pools with their connections; no other thread touches them.
final class EventLoop {
    private let mailbox: Mailbox<EventLoopMessage>
    private let wakeUp: WakeUp
    private let poller: Poller
    private let buffers = LoopBuffers()
    private var pools: [PoolID: PoolRunner] = [:]
    /// When each pool has work to do without an event.
    private var due: [PoolID: ContinuousClock.Instant] = [:]
    private var isStopping = false

    /// The thread's whole body.
    static func run(_ mailbox: Mailbox<EventLoopMessage>, _ wakeUp: WakeUp) {
        do {
            try EventLoop(mailbox, wakeUp).run()
        } catch {
            // The kernel refused epoll itself. Batches come back below, and from now on `post` refuses them.
            Logger(label: "apns").critical("An event loop of the APNs client ended: its pools send nothing more. \(error)")
        }
        for message in mailbox.close() {
            switch message {
            case .submit(let batches, let pool): pool.giveBack(batches)
            case .shutDown(_, _, let continuation): continuation.resume()
            case .resolved, .stop: break
            }
        }
    }

    private init(_ mailbox: Mailbox<EventLoopMessage>, _ wakeUp: WakeUp) throws(SystemError) {
        self.mailbox = mailbox
        self.wakeUp = wakeUp
        poller = try Poller()
        try poller.add(wakeUp.descriptor, key: 0, interest: .read)
    }

    private func run() throws(SystemError) {
        defer { for pool in pools.values { pool.giveUp() } }
        var busy: Set<PoolID> = []
        while !isStopping {
            let timeout = due.values.min().map { max(.zero, $0 - .now) }
            for event in try poller.wait(timeout: timeout) {
                guard event.key != 0 else {
                    wakeUp.clear()
                    continue
                }
                let key = SocketKey(event.key)
                pools[key.pool]?.note(event, on: key.connection)
                busy.insert(key.pool)
            }
            for message in mailbox.takeAll() { if let pool = obey(message) { busy.insert(pool) } }
            let now = ContinuousClock.now
            for (pool, moment) in due where moment <= now { busy.insert(pool) }
            for pool in busy { work(pool) }
            busy.removeAll(keepingCapacity: true)
        }
    }

    /// - Returns: the pool that has work now.
    private func obey(_ message: EventLoopMessage) -> PoolID? {
        switch message {
        case .submit(let batches, let pool):
            guard let runner = runner(of: pool) else {
                pool.giveBack(batches)
                return nil
            }
            runner.submit(batches)
            return pool.id
        case .shutDown(let pool, let cutOff, let continuation):
            guard let runner = runner(of: pool) else {
                continuation.resume()
                return nil
            }
            runner.shutDown(cutOff: cutOff, continuation)
            return pool.id
        case .resolved(let pool, let connection, let result):
            pools[pool]?.resolved(result, for: connection)
            return pool
        case .stop:
            isStopping = true
            return nil
        }
    }

    /// Made when it is first needed. Nil if the pool is closed.
    private func runner(of pool: PoolContext) -> PoolRunner? {
        if let known = pools[pool.id] { return known }
        guard pool.board.state != .closed else { return nil }
        let new = PoolRunner(pool, poller: poller, buffers: buffers)
        pools[pool.id] = new
        return new
    }

    private func work(_ id: PoolID) {
        guard let pool = pools[id] else { return }
        due[id] = pool.work()
        if pool.isOver {
            pools[id] = nil
            due[id] = nil
        }
    }
}

/// Names a pool of this process; never used twice.
typealias PoolID = Int

/// The key under which the poller knows a socket. Zero is the loop's own wake-up: pools are numbered from one.
struct SocketKey {
    let pool: PoolID
    let connection: ConnectionID

    init(pool: PoolID, connection: ConnectionID) {
        self.pool = pool
        self.connection = connection
    }

    init(_ raw: UInt64) {
        pool = Int(raw >> 32)
        connection = Int(raw & 0xffff_ffff)
    }

    var raw: UInt64 { UInt64(pool) << 32 | UInt64(connection) }
}

/// Buffers that a connection needs only while it works, shared by all connections of a loop.
final class LoopBuffers {
    var ciphertext = [UInt8](repeating: 0, count: 65_536)
    var plaintext: [UInt8] = []
}
