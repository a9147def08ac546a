package import Postgres
package import PushModel
package import TokenServiceApps

/// Finds tokens among the members of a notification's jobs. They are compared here: PostgreSQL takes 4 µs for each token and job.
package struct MemberSearch {
    /// The first jobs of a notification, which a search reads.
    static let maximumJobs = 20_000
    /// Jobs that one statement reads: up to 800 kB.
    private static let jobsRead = 1000

    private let session: PostgresSession
    private let app: App

    package init(session: PostgresSession, app: App) {
        self.session = session
        self.app = app
    }

    package struct Found: Equatable, Sendable {
        package var place: DeliveryPlace
        package var token: Int64
    }

    /// - Returns: The places of these tokens, in order. A token may have several.
    package func places(of tokens: Set<Int64>, in notification: PushID) throws -> [Found] {
        guard !tokens.isEmpty else { return [] }
        var (found, last): ([Found], Int) = ([], -1)
        for _ in 0..<Self.maximumJobs / Self.jobsRead {
            let jobs = try session.execute(
                """
                SELECT number, members FROM jobs WHERE app_id = \(app.id) AND notification = \(notification) AND number > \(last)
                ORDER BY number LIMIT \(Self.jobsRead)
                """)
            for job in jobs {
                last = try job["number"]
                for (position, token) in Job.members(of: try job["members"]).enumerated() where tokens.contains(token) {
                    found.append(Found(place: DeliveryPlace(job: last, position: position), token: token))
                }
            }
            guard jobs.count == Self.jobsRead else { break }
        }
        return found
    }
}
