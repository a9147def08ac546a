import PushModel
import TokenServiceSending

/// A delivery that dead letters name.
struct DeadDelivery: Sendable {
    let id: PushID
    let notification: PushID
    let installation: PushID
    /// Of the owner that its job was for.
    var ownerEpoch: Int64
    /// No dispatcher has reported an outcome: the broker gave the job up by itself.
    var isOrphan: Bool
    /// The attempts that the job had behind it.
    var attempts: Int
    /// The earlier outcome of those attempts.
    var earlier = PushJob.EarlierOutcome.none
    /// Of its job, UNIX milliseconds. With a local time, that of the notification is the last zone's.
    var expiresAt: Int64

    var job: JobID { JobID(notification: notification, number: DeliveryNames.place(of: id).job) }
    var position: Int { DeliveryNames.place(of: id).position }

    /// Each delivery of the letters once, in ascending order of id; without ids that match no place among the notification's jobs.
    static func all(of letters: [DeadLetter]) -> [DeadDelivery] {
        var all: [PushID: DeadDelivery] = [:]
        for letter in letters {
            guard let job = letter.job else { continue }
            let names = DeliveryNames(job.notification)
            for delivery in job.deliveries {
                let place = DeliveryNames.place(of: delivery.id)
                guard place.position < PushJob.maximumDeliveries, names.id(job: place.job, position: place.position) == delivery.id else {
                    continue
                }
                let other = all[delivery.id]
                all[delivery.id] = DeadDelivery(
                    id: delivery.id, notification: job.notification, installation: delivery.installation,
                    ownerEpoch: min(delivery.ownerEpoch, other?.ownerEpoch ?? .max), isOrphan: letter.isOrphan && other?.isOrphan ?? true,
                    attempts: max(job.attempt, other?.attempts ?? 0), earlier: max(delivery.earlierOutcome, other?.earlier ?? .none),
                    expiresAt: max(job.expiresAt, other?.expiresAt ?? 0))
            }
        }
        return all.values.sorted { $0.id < $1.id }
    }
}
