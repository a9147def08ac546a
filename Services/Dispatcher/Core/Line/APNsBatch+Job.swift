import APNs
import PushModel

extension APNsBatch {
    /// Some deliveries of one job, all of one environment.
    convenience init(_ chosen: DeliverySet, of progress: borrowing JobInProgress) {
        var requests: [APNsRequest] = []
        requests.reserveCapacity(chosen.count)
        chosen.forEach { index in requests.append(APNsRequest(progress.job.deliveries[index], index: index)) }
        self.init(
            tag: BatchTag(job: progress.number, app: progress.app).raw, target: progress.job.isBroadcast ? .broadcast : .device,
            lane: progress.job.lane,
            pushType: progress.job.pushType, topic: progress.job.topic, priority: progress.job.priority,
            // A broadcast has no such header.
            collapseID: progress.job.isBroadcast ? nil : progress.job.collapseID,
            // A second copy of an alert replaces the first on the screen.
            collapsesByID: progress.job.pushType == .alert && !progress.job.isBroadcast, expiration: progress.job.apnsExpiration,
            expiresAt: progress.job.expiresAt,
            payload: progress.job.payload, requests: requests)
    }
}

extension APNsRequest {
    fileprivate init(_ delivery: PushJob.Delivery, index: Int) {
        self.init(
            id: delivery.id, token: delivery.token, installation: delivery.installation, ownerEpoch: delivery.ownerEpoch, index: index)
    }
}
