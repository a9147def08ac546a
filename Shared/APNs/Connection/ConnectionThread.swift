import SystemIO

/// A connection's thread, from its first line to its last.
enum ConnectionThread {
    static func run(_ id: ConnectionID, _ context: PoolContext, _ wakeUp: WakeUp, _ commands: Mailbox<ConnectionCommand>) {
        let link: SecureLink
        do throws(DialError) {
            link = try context.dialer.dial()
        } catch {
            _ = commands.close()
            context.report(ConnectionReport(id: id, address: nil, news: .failed(error)))
            return
        }
        do {
            var loop = try ConnectionLoop.over(link, id: id, context, wakeUp: wakeUp, commands: commands)
            loop.run()
        } catch {
            link.close()
            context.dialer.addresses.closed(link.address)
            _ = commands.close()
            let failure = DialError(address: link.address, step: "connect", message: "\(error)")
            context.report(ConnectionReport(id: id, address: nil, news: .failed(failure)))
        }
    }
}
