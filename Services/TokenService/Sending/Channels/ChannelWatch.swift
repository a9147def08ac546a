package import Logging
package import Observability
package import Postgres
import PushModel
import ServiceLifecycle
import Synchronization
import TokenServiceKit

/// The figures about channels that alarms need. Every process reads them, whichever has the worker's lease.
package final class ChannelWatch: Service {
    private static let interval: Duration = .seconds(15)

    private let pool: PostgresPool
    private let logger: Logger
    private let figures = Mutex(Figures())

    struct Figures: Equatable, Sendable {
        var counts: [String: Int] = [:]
        /// Channels of the scope that has most, of those that count for Apple's limit.
        var largestScope = 0
        /// Since when the oldest channel is `creating` or `deleting`; UNIX milliseconds.
        var pendingSince: Int64?
    }

    package init(pool: PostgresPool, metrics: ChannelMetrics, logger: Logger) {
        self.pool = pool
        self.logger = logger
        for environment in APNsEnvironment.allCases {
            for state in BroadcastChannel.State.allCases {
                metrics.channels.observe(environment.rawValue, state.rawValue) {
                    Double(self.latest.counts["\(environment.rawValue) \(state.rawValue)"] ?? 0)
                }
            }
        }
        metrics.largestShare.observe { Double(self.latest.largestScope) / Double(ChannelStore.maximumInScope) }
        metrics.pending.observe {
            self.latest.pendingSince.map { Double(max(0, UnixTime.milliseconds() - $0)) / 1000 } ?? 0
        }
    }

    private var latest: Figures { figures.withLock { $0 } }

    package func run() async throws {
        await cancelWhenGracefulShutdown {
            repeat { await self.look() } while await Pause.of(Self.interval)
        }
    }

    private func look() async {
        do {
            let seen = try await pool.session { session in try Figures(session) }
            figures.withLock { $0 = seen }
        } catch {
            guard !Task.isCancelled else { return }
            logger.failed("The channels could not be counted", error)
        }
    }
}

extension ChannelWatch.Figures {
    fileprivate init(_ session: PostgresSession) throws {
        for row in try session.execute(
            "SELECT environment || ' ' || state AS kind, count(*) AS count FROM channels GROUP BY environment, state")
        {
            counts[try row["kind"]] = try row["count"]
        }
        largestScope = try session.execute(
            """
            SELECT coalesce(max(count), 0) AS count FROM (
                SELECT count(*) AS count FROM channels WHERE state IN ('creating', 'open', 'deleting', 'foreign')
                    GROUP BY app_id, environment
            ) AS scopes
            """
        ).only()["count"]
        pendingSince = try session.execute("SELECT min(changed_at) AS since FROM channels WHERE state IN ('creating', 'deleting')").only()
            .milliseconds("since")
    }
}

/// Shows the broadcast channels by their state.
package struct ChannelMetrics: Sendable {
    let channels: GaugeMetric
    let largestShare: GaugeMetric
    let pending: GaugeMetric

    package init(_ registry: PrometheusMetrics) {
        channels = registry.gauge(
            "push_token_service_channels", ["environment", "state"],
            """
            Broadcast channels, looked at every 15 s by each process: use the largest; alert on any in state `lost`. State: creating, open, 
            """
                + "deleting, failed, foreign, lost.")
        largestShare = registry.gauge(
            "push_token_service_channels_largest_share",
            "The largest share of Apple's 10,000 channels that one app has in one environment, from 0 to 1; alert above 0.9.")
        pending = registry.gauge(
            "push_token_service_channels_pending_seconds",
            "For how long the channel that waits longest has been `creating` or `deleting`; alert above 600.")
    }
}
