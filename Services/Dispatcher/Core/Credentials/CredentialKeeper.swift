import APNs
import Logging
import OpenSSL
import PushModel
import Synchronization
import SystemIO

/// Holds the credentials in use, and takes over new ones when their files change: all or none, and without losing a job. It makes new pools
/// first; the core then changes over between two jobs, and the old pools finish their requests.
final class CredentialKeeper: Sendable {
    /// The state of the files compared with the credentials in use.
    enum Standing: Equatable, Sendable {
        case current
        /// A change was seen; it is taken over once the files stop changing.
        case changing
        /// The files cannot be used: the credentials that were read before stay in use.
        case refused(String)
    }

    private struct Contents {
        var plan: CredentialPlan
        /// The files as they were when they were last read, usable or not.
        var files: CredentialFiles
        var standing = Standing.current
        /// The files as they were at the last check, if they differ from `files`.
        var seen: [String: CredentialFiles.Stamp]?
    }

    private let path: String
    private let table: PoolTable
    private let logger: Logger
    private let adopt: @Sendable (CredentialPlan) -> Void
    private let counted: @Sendable (_ adopted: Bool) -> Void
    private let contents: Mutex<Contents>
    /// Two threads may ask at once; they take turns.
    private let turn = Mutex(())

    /// - Parameters:
    ///   - file: the file as read from `path` at the start.
    ///   - adopt: gets a new plan once its pools are there.
    ///   - counted: gets the result of each attempt to take over changed files.
    /// - Throws: if a pool cannot be made.
    init(
        path: String, file: CredentialsFile, table: PoolTable, logger: Logger, counted: @escaping @Sendable (_ adopted: Bool) -> Void,
        adopt: @escaping @Sendable (CredentialPlan) -> Void
    ) throws(TLSError) {
        self.path = path
        self.table = table
        self.logger = logger
        self.counted = counted
        self.adopt = adopt
        let plan = CredentialPlan(file)
        contents = Mutex(Contents(plan: plan, files: file.files))
        _ = try table.prepare(plan)
    }

    var standing: Standing { contents.withLock { $0.standing } }
    var plan: CredentialPlan { contents.withLock { $0.plan } }

    /// Proves the first pools.
    func begin() {
        for pool in table.serving { prove(pool) }
        contents.withLock { $0.files }.warn(logger)
        warnOfValidity(plan)
    }

    /// Checks the files. A change is read once it looks the same twice in a row, so that an operator has time to replace several files.
    func look() {
        turn.withLock { _ in if isDue() { takeOver("Changed credentials are in use") } }
    }

    /// Reads the files now, changed or not: the operator says that they are complete.
    func reload() {
        turn.withLock { _ in takeOver("Credentials were read anew, as asked") }
    }

    private func isDue() -> Bool {
        contents.withLock { contents in
            let now = CredentialFiles(nowAt: contents.files)
            guard now.stamps != contents.files.stamps else {
                contents.seen = nil
                if contents.standing == .changing { contents.standing = .current }
                return false
            }
            if contents.seen == now.stamps { return true }
            contents.seen = now.stamps
            if contents.standing == .current { contents.standing = .changing }
            return false
        }
    }

    /// Sends a proof again to pools without an answer from APNs: the first attempt may have come at a bad time.
    func proveAgain() {
        for pool in table.serving where [.ready, .idle].contains(pool.pool.state) && pool.pool.snapshot().totals.connectionsProven == 0 {
            prove(pool)
        }
    }

    /// - Parameter done: the log message after a success.
    private func takeOver(_ done: Logger.Message) {
        do throws(CredentialsError) {
            let file = try CredentialsFile(path: path)
            let plan = CredentialPlan(file, after: plan)
            do throws(TLSError) {
                let new = try table.prepare(plan)
                note(.current, file.files)
                contents.withLock { $0.plan = plan }
                for pool in new { prove(pool) }
                adopt(plan)
                counted(true)
                logger.notice(done, metadata: [DispatcherLogKey.count: "\(plan.pools.count)", DispatcherLogKey.new: "\(new.count)"])
                file.files.warn(logger)
                warnOfValidity(plan)
            } catch {
                refuse("\(error)", file.files)
            }
        } catch {
            refuse(error.description, error.files)
        }
    }

    private func refuse(_ why: String, _ files: CredentialFiles) {
        note(.refused(why), files)
        counted(false)
        logger.error("Changed credentials cannot be used; those read before stay in use", metadata: [DispatcherLogKey.detail: "\(why)"])
    }

    private func note(_ standing: Standing, _ files: CredentialFiles) {
        contents.withLock { contents in
            contents.standing = standing
            contents.files = files
            contents.seen = nil
        }
    }

    // MARK: The beginning of a pool

    private func prove(_ pool: PoolTable.Serving) {
        guard let topic = pool.plan.entry.probeTopic else { return }
        pool.pool.submit([CredentialProof.batch(topic: topic, now: WallClock.milliseconds())])
    }

    /// A certificate lasts a year, and every push fails after it: warns ahead. One that is not valid yet: the clock is slow, or it came
    /// early.
    private func warnOfValidity(_ plan: CredentialPlan) {
        let now = WallClock.milliseconds() / 1000
        for pool in plan.pools {
            guard case .certificate(let notBefore, let notAfter) = pool.entry.validity else { continue }
            guard notBefore > now || notAfter - now < 30 * 86_400 else { continue }
            let isEarly = notBefore > now
            logger.warning(
                isEarly ? "A certificate is not valid yet" : "A certificate ends soon, or has ended",
                metadata: [
                    DispatcherLogKey.credential: "\(pool.credential.name)", DispatcherLogKey.environment: "\(pool.environment.rawValue)",
                    DispatcherLogKey.days: "\(((isEarly ? notBefore : notAfter) - now) / 86_400)",
                ])
        }
    }
}
