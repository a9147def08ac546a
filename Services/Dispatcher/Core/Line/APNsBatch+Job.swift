import APNs
import PushModel

extension APNsBatch {
    /// Some deliveries of one job, all of one environment.
    init(_ indices: [Int], of progress: JobInProgress) {
        let job = progress.job
        self.init(
            tag: BatchTag(job: progress.number, app: progress.app).raw, lane: job.lane, tenant: UInt32(progress.app),
            pushType: job.pushType, topic: job.topic, priority: job.priority, collapseID: job.collapseID,
            // An alert that has to be sent a second time takes the first one's place on the screen.
            collapsesByID: job.pushType == .alert, expiration: job.apnsExpiration, expiresAt: job.expiresAt, payload: job.payload,
            requests: indices.map { index in
                let delivery = job.deliveries[index]
                return APNsRequest(
                    id: delivery.id, token: delivery.token, installation: delivery.installation, ownerEpoch: delivery.ownerEpoch,
                    index: index)
            })
    }
}
