import APNs
import Logging
import OpenSSL
import PushModel
import Synchronization
import SystemIO

/// Holds the credentials that are in use, and takes over new ones when their files change: whole or not at all, and without losing a job.
/// New pools are made first; the core then changes over between two jobs, and the old pools finish what they have.
final class CredentialKeeper: Sendable {
    /// How the files stand to what is in use.
    enum Standing: Equatable, Sendable {
        case current
        /// Seen, and waiting for the files to come to rest.
        case changing
        /// What is in the files cannot be used: what was read before stays in use.
        case refused(String)
    }

    private struct Contents {
        var plan: CredentialPlan
        /// As they were when they were last read, for better or worse.
        var files: CredentialFiles
        var standing = Standing.current
        /// As they were at the last look, when they differ from `files`.
        var seen: CredentialFiles?
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
    ///   - file: what was read from `path` in the beginning.
    ///   - adopt: gets a new plan once its pools are there.
    ///   - counted: gets how each attempt to take over changed files ended.
    /// - Throws: where a pool cannot be made.
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

    /// Proves the pools of the beginning.
    func begin() {
        for pool in table.serving { prove(pool) }
        warnOfExpiry(plan)
    }

    /// Looks at the files. What has changed is read once it looks the same twice in a row: whoever replaces several files gets time for it.
    func look() {
        turn.withLock { _ in if isDue() { takeOver("Changed credentials are in use") } }
    }

    /// Reads the files now, whatever they look like: somebody says that they are as they should be.
    func reload() {
        turn.withLock { _ in takeOver("Credentials were read anew, as asked") }
    }

    private func isDue() -> Bool {
        contents.withLock { contents in
            let now = CredentialFiles(nowAt: contents.files)
            guard now != contents.files else {
                contents.seen = nil
                if contents.standing == .changing { contents.standing = .current }
                return false
            }
            if contents.seen == now { return true }
            contents.seen = now
            if contents.standing == .current { contents.standing = .changing }
            return false
        }
    }

    /// Pools that APNs has not spoken to yet are asked again: the first attempt may have come at a bad time.
    func proveAgain() {
        for pool in table.serving where [.ready, .idle].contains(pool.pool.state) && pool.pool.snapshot().totals.connectionsProven == 0 {
            prove(pool)
        }
    }

    /// - Parameter done: what to say where it goes well.
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
                logger.notice(done, metadata: [LogKey.count: "\(plan.pools.count)", LogKey.new: "\(new.count)"])
                warnOfExpiry(plan)
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
        logger.error("Changed credentials cannot be used; those read before stay in use", metadata: [LogKey.detail: "\(why)"])
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
        guard let topic = pool.plan.entry.probeTopic, let batch = CredentialProof.batch(topic: topic, now: WallClock.milliseconds())
        else { return }
        pool.pool.submit([batch])
    }

    /// A certificate lasts a year, and nothing works after it: say so ahead.
    private func warnOfExpiry(_ plan: CredentialPlan) {
        let now = WallClock.milliseconds() / 1000
        for pool in plan.pools {
            guard case .certificate(_, let notAfter) = pool.entry.validity, notAfter - now < 30 * 86_400 else { continue }
            logger.warning(
                "A certificate ends soon, or has ended",
                metadata: [
                    LogKey.credential: "\(pool.credential.name)", LogKey.environment: "\(pool.environment.rawValue)",
                    LogKey.days: "\((notAfter - now) / 86_400)",
                ])
        }
    }
}
