import Synchronization
import SystemIO

/// Access to a loop from outside: its mailbox and its thread.
final class LoopHandle: Sendable {
    let mailbox: Mailbox<LoopCommand>
    let wakeUp: WakeUp
    private let thread = Mutex<SystemThread?>(nil)

    private init() throws(SystemError) {
        wakeUp = try WakeUp()
        mailbox = Mailbox(wakeUp: wakeUp)
    }

    /// Starts `count` loops. The first one also accepts, and distributes the connections in turn.
    static func start(
        count: Int, listeners: [SimulatorPort: TCPListener], service: SharedService
    ) throws(SimulatorError) -> [LoopHandle] {
        var loops: [LoopHandle] = []
        do {
            for _ in 0..<count { loops.append(try LoopHandle()) }
        } catch {
            throw SimulatorError(.listening, "\(error)")
        }
        let peers = loops
        for (index, loop) in loops.enumerated() {
            let own = index == 0 ? listeners : [:]
            do throws(SystemError) {
                let thread = try SystemThread.start(name: "apns-sim-\(index)") {
                    ServerLoop.run(handle: loop, peers: peers, listeners: own, service: service)
                }
                loop.thread.withLock { $0 = thread }
            } catch {
                for started in loops[..<index] { started.post(.stop) }
                for started in loops[..<index] { started.join() }
                throw SimulatorError(.listening, "\(error)")
            }
        }
        return loops
    }

    func post(_ command: LoopCommand) { mailbox.post(command) }

    /// After `stop` was posted.
    func join() {
        thread.withLock { $0 }?.join()
    }
}
