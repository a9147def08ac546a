package import PushModel
package import TokenServiceRegistry

/// A notification whose deliveries are still to be made, and the progress of its fan-out.
package struct PendingFanOut: Sendable {
    package var template: JobTemplate
    package var app: Int64
    /// The purpose of the tokens that it goes to.
    package var purpose: Purpose
    /// The content, with its variants in ascending order of locale.
    package var content: RenderedContent
    /// Each delivery's lifetime from when it is due, in milliseconds; it ends with the notification in any case.
    package var lifetime: Int64?
    package var mayTryOtherEnvironment: Bool
    /// How many entries the target lists; nil if fan-out finds the target among the app's installations, or it is a channel.
    package var entries: Int64?
    /// Every device that is meant has one of these tags, and few enough installations have them that their index is the shorter way.
    package var rareTags: [String]?
    /// Every installation of the app, with any tags or none.
    package var isEverybody: Bool
    /// UNIX milliseconds: fan-out has not begun before.
    package var beganAt: Int64
    package var checkpoint: Checkpoint
    /// Milliseconds.
    var activityWindow: Int64 = 0
    /// The Live Activity or the channel that it updates; nil for all else, a start included.
    package var updates: UpdateTarget.Key?
    /// The channel that it goes to; nil for all else, and if Apple does not have it.
    var channel: BroadcastMember?
    /// It goes to the activities of its channel that have update tokens, too.
    var includesActivities = false

    mutating func advance(past page: Page) {
        checkpoint = page.end
        if page.areTagsCommon { rareTags = nil }
    }

    package struct Checkpoint: Equatable, Sendable {
        /// The last place of a list that fan-out read, or the last ordinal of the app's installations or a channel's activities.
        package var position: Int64
        /// Where the next page of a list, or a channel's activities, goes on among the installations of the user behind ``position``; nil
        /// for all of them.
        package var installation: PushID?
        /// Jobs that were made.
        package var jobs: Int
    }

    /// One step of fan-out, in memory only.
    package struct Page: Sendable {
        package var end: Checkpoint
        package var isLast: Bool
        package var jobs: [Draft]
        /// Installations, or entries of the list, that fan-out read.
        package var read = 0
        /// More installations have ``PendingFanOut/rareTags`` than PostgreSQL's statistics said, or the search for them took too long twice
        /// in a row: the pages after this one go through the app's.
        package var areTagsCommon = false
        package var count: Int { jobs.reduce(0) { $0 + $1.deliveries.count } }
    }

    /// A job that is not committed yet, with the data that its message needs.
    package struct Draft: Sendable {
        package var job: Job
        package var deliveries: EncodedDeliveries
    }

    /// One delivery that a page found. Times are UNIX milliseconds.
    struct Found {
        var tokenID: Int64
        var token: DeviceToken
        var environment: APNsEnvironment
        var installation: PushID
        var ownerEpoch: Int64
        var isUnproven: Bool
        var locale: String?
        var dueAt: Int64?
        /// It was at another installation when fan-out may have begun.
        var hasMoved: Bool
    }

    /// The common properties of a job's deliveries.
    package func template(of job: Job) -> JobTemplate {
        var template = template
        if let lifetime { template.end(job.dueAt + lifetime) }
        if let variant = content.variants.first(where: { $0.locale == job.locale }) { template.payload = variant.payload }
        if job.isBroadcast, let channel { template = template.broadcast(to: channel, now: job.dueAt) }
        return template
    }

    /// Groups a page's deliveries into jobs by their common properties, in the order in which they were found.
    func page(_ found: [Found], end: Checkpoint, isLast: Bool, names: DeliveryNames, now: Int64) -> Page {
        struct Kind: Hashable {
            let dueAt: Int64
            let locale: String
        }
        var groups: [(kind: Kind, members: [Found])] = []
        var places: [Kind: Int] = [:]
        // Most pages are all of one kind.
        var place = 0
        for delivery in found {
            // A late fan-out must not extend the life of a delivery.
            let dueAt = delivery.dueAt.map { max($0, template.acceptedAt) } ?? now
            let kind = Kind(dueAt: dueAt, locale: content.variantLocale(for: delivery.locale) ?? "")
            if groups.isEmpty || groups[place].kind != kind {
                place = places[kind] ?? groups.count
                if place == groups.count {
                    groups.append((kind, []))
                    places[kind] = place
                }
            }
            groups[place].members.append(delivery)
        }
        var page = Page(end: end, isLast: isLast, jobs: [])
        for (kind, members) in groups {
            for start in stride(from: 0, to: members.count, by: PushJob.maximumDeliveries) {
                let part = members[start..<min(start + PushJob.maximumDeliveries, members.count)]
                let number = page.end.jobs
                page.end.jobs += 1
                page.jobs.append(
                    Draft(
                        job: Job(
                            number: number, locale: kind.locale, dueAt: kind.dueAt, members: part.map(\.tokenID),
                            sandbox: part.enumerated().filter { $1.environment == .sandbox }.map(\.offset)),
                        deliveries: EncodedDeliveries(
                            part.enumerated().lazy.map { position, found in
                                delivery(found, id: names.id(job: number, position: position))
                            })))
            }
        }
        return page
    }

    private func delivery(_ found: Found, id: PushID) -> PushJob.Delivery {
        PushJob.Delivery(
            id: id, token: found.token, environment: found.environment, installation: found.installation, ownerEpoch: found.ownerEpoch,
            environmentTrial: environmentTrial(isUnproven: found.isUnproven))
    }

    func environmentTrial(isUnproven: Bool) -> PushJob.EnvironmentTrial { isUnproven && mayTryOtherEnvironment ? .allowed : .none }
}
